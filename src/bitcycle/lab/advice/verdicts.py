"""What the evidence says about the paper's claims, from a file that ``python -m evidence page --update`` writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

FILE = "verdicts.json"

Claims = dict[str, Any]


@dataclass(frozen=True)
class VerdictCounts:
    """The domains on which the evidence supports a claim, contradicts it, or leaves it open."""

    supported: tuple[str, ...]
    contradicted: tuple[str, ...]
    open: tuple[str, ...]

    @property
    def is_supported(self) -> bool:
        """Whether more domains support the claim than contradict it."""
        return len(self.supported) > len(self.contradicted)

    @property
    def is_contradicted(self) -> bool:
        """Whether more domains contradict the claim than support it."""
        return len(self.contradicted) > len(self.supported)

    def describe(self, names: bool = True) -> str:
        """Return on how many domains the claim was judged how, with the names of domains or without.

        >>> found = VerdictCounts(("cora-gcn",), ("cifar10", "digits"), ())
        >>> found.describe()
        'supported on 1 of 3 domains (cora-gcn), contradicted on 2 (cifar10, digits)'
        >>> found.describe(names=False)
        'supported on 1 of 3 domains, contradicted on 2'
        """
        number = sum(map(len, vars(self).values()))
        of_all = f" of {number} domain{'s' if number > 1 else ''}"
        parts: list[str] = []
        for mark, domains in vars(self).items():
            if domains:
                listed = f" ({', '.join(domains)})" if names else ""
                parts.append(f"{mark} on {len(domains)}{'' if parts else of_all}{listed}")
        return ", ".join(parts) or "not tested yet"


def verdict(claim: str, task: str | None = None) -> VerdictCounts:
    """Return the verdict on a claim by its id: on the domains of a task if there are any, else on all."""
    return verdict_in(_read(), claim, task)


def verdict_in(claims: Claims, claim: str, task: str | None = None) -> VerdictCounts:
    """Return the verdict on one of the claims of a file."""
    domains = claims[claim]["domains"]
    of_task = [each for each in domains if each["task"] == task] or domains
    marks = ("supported", "contradicted", "open")
    return VerdictCounts(*(tuple(each["domain"] for each in of_task if each["mark"] == mark) for mark in marks))


def parse(text: str) -> Claims:
    """Return the claims of a file."""
    found: Claims = json.loads(text)
    return found


@cache
def _read() -> Claims:
    return parse((files(__package__) / FILE).read_text(encoding="utf-8"))
