"""The design of the evidence: what is claimed and how it is judged, and on which domains it is studied.

``claims.toml`` and ``domains.toml`` were written before any judging run. Random seeds for tuning (the choice of bits,
steps and measures, and the analysis of power) are other ones than those for judging.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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


class Measure(StrEnum):
    """What quality is measured by. The task's metric is the other one's control."""

    LOSS = "test loss"
    METRIC = "metric"

    @property
    def other(self) -> Measure:
        """The other measure."""
        return Measure.METRIC if self is Measure.LOSS else Measure.LOSS


class Role(StrEnum):
    """What random seeds are for."""

    TUNING = "tuning"
    JUDGING = "judging"


@dataclass(frozen=True)
class Claim:
    """A claim with everything that decides about it.

    Its effect is a difference, the mean quality of some settings minus that of others, or a slope: the change of
    quality with cost, from the cost of static q_min to that of static q_max. Both are computed seed by seed.
    """

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
    better: tuple[str, ...] = ()
    """The settings that the claim says are better."""
    than: tuple[str, ...] = ()
    beyond: Mapping[str, tuple[str, ...]] | None = None
    """A second difference, with settings under ``better`` and ``than``: the claim is that the first one is larger."""
    slope: tuple[str, ...] = ()
    """The settings of a slope; a claim about a difference has none."""
    given: str = ""
    """The id of a claim that this one builds on: it is not applicable where that one is not supported."""

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each setting in the effect of a difference.

        >>> Claim("", "", "", "", Rule.GREATER, 0.1, (), better=("CR", "CT"), than=("static q_max",)).weights
        {'CR': 0.5, 'CT': 0.5, 'static q_max': -1.0}
        """
        weights: dict[str, float] = {}
        beyond = self.beyond or {"better": (), "than": ()}
        for sign, settings in ((1, self.better), (-1, self.than), (-1, beyond["better"]), (1, beyond["than"])):
            for setting in settings:
                weights[setting] = weights.get(setting, 0.0) + sign / len(settings)
        return weights

    @property
    def needed(self) -> tuple[str, ...]:
        """The settings that the claim needs."""
        return self.slope or tuple(self.weights)


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
    study_seeds: Mapping[str, range] = field(default_factory=dict)
    """The judging seeds of studies that do not take those of the domain."""

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
        kinds = {"*", *domain.kinds}
        return [each for each in self.claims if each.study in domain.studies and kinds.intersection(each.domains)]

    def seeds(self, domain: Domain, role: Role, study: str) -> range:
        """Return the random seeds of a study of a domain."""
        if role is Role.JUDGING and study in self.study_seeds:
            return self.study_seeds[study]
        first = self.first_seed[role]
        return range(first, first + (domain.seeds if role is Role.JUDGING else self.tuning_seeds))


def read_design(folder: Path = FOLDER) -> Design:
    """Read claims.toml and domains.toml.

    Raises:
        ValueError: A file is missing, or something in it is wrong: the message names the file.
    """
    with _read(folder / "claims.toml") as file:
        common = {"smallest": file["smallest"], "domains": ["*"]}
        claims = tuple(Claim(**_values({**common, **each})) for each in file["claim"])
    with _read(folder / "domains.toml") as file:
        design = Design(
            claims=claims,
            domains=tuple(Domain(**_values(each)) for each in file["domain"]),
            studies={name: tuple(study["part"]) for name, study in file["studies"].items()},
            study_seeds={name: range(*study["seeds"]) for name, study in file["studies"].items() if "seeds" in study},
            first_seed={role: file["seeds"][role.value] for role in Role},
            tuning_seeds=file["seeds"]["number_for_tuning"],
        )
        for domain in design.domains:
            design.gap_domain(domain)
            for study in domain.studies:
                _check(study, design.studies, f"a study of {domain.id}")
    with _read(folder / "claims.toml"):
        kinds = {"*", *(kind for domain in design.domains for kind in domain.kinds)}
        for claim in claims:
            _check(claim.study, design.studies, f"the study of {claim.id}")
            _check(claim.given, ("", *(each.id for each in claims)), f"what {claim.id} builds on")
            for kind in claim.domains:
                _check(kind, kinds, f"a kind of domain of {claim.id}")
    return design


@contextmanager
def _read(path: Path) -> Iterator[dict[str, Any]]:
    """Read a file, and name it in errors about it."""
    try:
        yield tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no {path}: run this in the repository, or name its folder with --folder") from None
    except KeyError as error:
        raise ValueError(f"{path}: lacks {error}") from None
    except (ValueError, TypeError) as error:  # a TypeError is a key that is missing or not known
        raise ValueError(f"{path}: {error}") from error


def _values(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a table as fields: lists become tuples, and the names of rules and measures their members."""
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    members = {"rule": Rule, "measure": Measure}
    return values | {key: members[key](values[key]) for key in members.keys() & values.keys()}


def _check(name: str, known: Collection[str], what: str) -> None:
    if name not in known:
        raise ValueError(f"{what} does not exist: {name!r}; {nearest(name, known)}")
