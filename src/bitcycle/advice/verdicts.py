"""What the evidence says about the paper's claims, from a file that ``bitcycle evidence page --verdicts`` writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

FILE = "verdicts.json"


@dataclass(frozen=True)
class Verdict:
    """A claim and the domains on which the evidence supports it, contradicts it, or leaves it open."""

    claim: str
    """The claim in one sentence."""
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

    def __str__(self) -> str:
        """Return the claim with what was found.

        >>> print(Verdict("Cycles help.", ("Cora",), ("CIFAR-10", "Digits"), ()))
        "Cycles help." Supported on 1 of 3 domains (Cora); contradicted on 2 (CIFAR-10, Digits).
        """
        number = len(self.supported) + len(self.contradicted) + len(self.open)
        if not number:
            return f'"{self.claim}" Not tested.'
        parts = [
            f"{mark} on {len(domains)}{'' if i else f' of {number} domains'} ({', '.join(domains)})"
            for i, (mark, domains) in enumerate((mark, domains) for mark, domains in self._parts() if domains)
        ]
        found = "; ".join(parts)
        return f'"{self.claim}" {found[0].upper()}{found[1:]}.'

    def _parts(self) -> list[tuple[str, tuple[str, ...]]]:
        return [("supported", self.supported), ("contradicted", self.contradicted), ("open", self.open)]


def verdict(claim: str, task: str | None = None) -> Verdict:
    """Return the verdict on a claim by its id: on the domains of a task if there are any, else on all."""
    found = _read()[claim]
    of_task = [each for each in found["domains"] if each["task"] == task] or found["domains"]
    by_mark = {
        mark: tuple(each["title"] for each in of_task if each["mark"] == mark)
        for mark in ("supported", "contradicted", "open")
    }
    return Verdict(found["text"], **by_mark)


@cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files(__package__) / FILE).read_text(encoding="utf-8"))
    return found
