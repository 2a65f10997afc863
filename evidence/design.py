"""The design of the evidence: what is claimed and how it is judged, and on which domains it is studied.

``claims.toml`` and ``domains.toml`` were written before any judging run. Random seeds for tuning (the choice of bits,
steps and measures, and the analysis of power) are other ones than those for judging.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from bitcycle._support.names import nearest

FOLDER = Path("evidence")
"""Where claims, domains and figures are kept, relative to the repository."""


class Rule(StrEnum):
    """How a claim is judged, by the one-sided 95 % bounds of its effect and the smallest effect worth knowing."""

    GREATER = "greater"
    """Supported if the lower bound is above zero, else contradicted if the upper bound is below the smallest effect."""
    NO_WORSE = "no worse"
    """Supported if the lower bound is not below minus the smallest effect, else contradicted if the upper bound is
    below zero."""


class Statistic(StrEnum):
    """What the effect of a claim is."""

    DIFFERENCE = "difference"
    """The mean quality of some settings minus that of others, paired by seed."""
    SLOPE = "slope"
    """The change of quality with cost, from the cost of static q_min to that of static q_max, seed by seed."""


class Measure(StrEnum):
    """What quality is measured by. The task's metric is the other one's control."""

    LOSS = "test loss"
    METRIC = "metric"


class Role(StrEnum):
    """What random seeds are for."""

    TUNING = "tuning"
    JUDGING = "judging"


@dataclass(frozen=True)
class Contrast:
    """The mean over some settings minus the mean over others."""

    better: tuple[str, ...]
    """The settings that the claim says are better."""
    than: tuple[str, ...]

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each setting in the difference.

        >>> Contrast(("CR", "CT"), ("static q_max",)).weights
        {'CR': 0.5, 'CT': 0.5, 'static q_max': -1.0}
        """
        weights = dict.fromkeys(self.better, 1 / len(self.better))
        for setting in self.than:
            weights[setting] = weights.get(setting, 0.0) - 1 / len(self.than)
        return weights


@dataclass(frozen=True)
class Claim:
    """A claim with everything that decides about it."""

    id: str
    text: str
    """The claim in one sentence."""
    source: str
    """Where it comes from."""
    study: str
    """The study that judges it: a key of ``studies`` in domains.toml."""
    rule: Rule
    smallest: float
    """The smallest effect worth knowing, as a share of the gap between static q_min and static q_max."""
    domains: tuple[str, ...]
    """The kinds of domains it is about; ``*`` for all."""
    kind: Statistic = Statistic.DIFFERENCE
    better: tuple[str, ...] = ()
    """The settings that the claim says are better."""
    than: tuple[str, ...] = ()
    beyond: Contrast | None = None
    """A second difference that is subtracted: the claim is that the first one is larger."""
    settings: tuple[str, ...] = ()
    """The settings of a slope."""
    given: str = ""
    """The id of a claim that this one builds on: it is not applicable where that one is not supported."""

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each setting in the effect of a difference."""
        weights = Contrast(self.better, self.than).weights
        for setting, weight in (self.beyond.weights if self.beyond else {}).items():
            weights[setting] = weights.get(setting, 0.0) - weight
        return weights

    @property
    def needed(self) -> tuple[str, ...]:
        """The settings that the claim needs."""
        return self.settings if self.kind is Statistic.SLOPE else tuple(self.weights)


@dataclass(frozen=True)
class Domain:
    """A task with its data, model and length of training; one column of the matrix."""

    id: str
    title: str
    kinds: tuple[str, ...]
    """What claims can be about it: ``graph``, ``hard``, ``fine-tuning``, ``deficit``, ..."""
    studies: tuple[str, ...]
    """The names of the studies that are run on it."""
    task: Mapping[str, Any]
    """The keys of a plan's part that all its studies share."""
    measure: Measure
    """By which measure claims are judged; the other one must not contradict it."""
    seeds: int
    """Number of judging seeds."""
    scale: str
    """The scale of the training in words."""
    paper: str
    """The scale of the paper's experiment."""
    settles: str
    """What would settle what is open here."""
    hours: float
    """Estimated hours of one core for all judging runs."""
    gap_of: str = ""
    """The domain whose gap between static q_min and static q_max is the unit of effects; its own if empty."""
    found: int = 0
    """The width that the range test finds on the seeds for tuning; 0 if it has not been run."""


@dataclass(frozen=True)
class Design:
    """Claims, domains and the studies that connect them.

    The fields of :class:`Claim` and :class:`Domain` are the keys of the tables in claims.toml and domains.toml.
    """

    claims: tuple[Claim, ...]
    domains: tuple[Domain, ...]
    """In the order in which they are run: by value per hour."""
    studies: Mapping[str, tuple[Mapping[str, Any], ...]]
    """The parts of each study, as tables of a plan."""
    first_seed: Mapping[Role, int]
    tuning_seeds: int

    def domain(self, id: str) -> Domain:
        """Return a domain by its id."""
        for each in self.domains:
            if each.id == id:
                return each
        raise ValueError(f"there is no domain {id!r}; {nearest(id, [each.id for each in self.domains])}")

    def gap_domain(self, domain: Domain) -> Domain:
        """Return the domain whose gap is the unit of effects in a domain."""
        return self.domain(domain.gap_of) if domain.gap_of else domain

    def claims_about(self, domain: Domain) -> list[Claim]:
        """Return the claims that a domain can judge."""
        return [
            claim
            for claim in self.claims
            if claim.study in domain.studies and ("*" in claim.domains or set(claim.domains) & set(domain.kinds))
        ]

    def seeds(self, domain: Domain, role: Role) -> list[int]:
        """Return the random seeds of a domain."""
        number = domain.seeds if role is Role.JUDGING else self.tuning_seeds
        first = self.first_seed[role]
        return list(range(first, first + number))
