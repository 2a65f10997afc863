"""The part of an answer that does not depend on the goal: between which bits to move, in how many cycles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bitcycle._support.names import nearest
from bitcycle.schedules import DEFAULT_CYCLES, Schedule, schedule
from bitcycle.schedules.base import positive

DOMAINS: dict[str, tuple[int, str]] = {
    "image": (3, "CIFAR with ResNets; it used 4 for MobileNetV2 and for ImageNet"),
    "detection": (5, "Pascal VOC with RetinaNet"),
    "graph": (3, "OGBN-Arxiv and OGBN-Products"),
    "language": (5, "Penn Treebank with an LSTM"),
    "entailment": (5, "XNLI with BERT"),
}
"""q_min that the paper used in each domain, and where."""

UNKNOWN_Q_MIN = 4
FEW_CYCLES = 2
SHORTEST_CYCLE = 10
"""Steps: in fewer, a cycle through several widths is a jump rather than a curve."""


class FoundLevel(Protocol):
    """What advice needs to know of a range test."""

    @property
    def q_min(self) -> int | None: ...
    @property
    def reason(self) -> str: ...


@dataclass(frozen=True)
class Setting:
    """Bits and cycles, with their reasons."""

    steps: int
    q_min: int
    q_max: int
    cycles: int
    given: bool
    """Whether q_min comes from the user or from a range test, so that nothing may go below it."""
    reasons: tuple[str, ...]

    def complete(self, spec: str) -> Schedule:
        """A spec with bits and cycles filled in."""
        return schedule(spec, (self.q_min, self.q_max), self.cycles)

    def saving(self, s: Schedule) -> float:
        return s.saving(self.steps, self.q_max)


def setting_for(
    domain: str | None,
    steps: int,
    fine_tuning: bool,
    q_max: int,
    q_min: int | None,
    range_test: FoundLevel | None,
) -> Setting:
    """Choose bits and cycles by the paper's rules.

    >>> s = setting_for("language", steps=1000, fine_tuning=True, q_max=8, q_min=None, range_test=None)
    >>> s.q_min, s.q_max, s.cycles
    (5, 8, 2)
    """
    steps, q_max = positive(steps, "the number of steps"), positive(q_max, "q_max")
    check_domain(domain)
    low, given, about_bits = _lowest(domain, q_min, range_test)
    if low >= q_max:
        hint = "" if given else "; give q_min, or the result of a range test"
        raise ValueError(f"q_min {low} leaves nothing to schedule below q_max {q_max}: train at static:{q_max}{hint}")
    cycles, about_cycles = _cycles(steps, fine_tuning)
    about_q_max = f"paper, recommendations: q_max is the static width one would train at, here {q_max} bits."
    return Setting(steps, low, q_max, cycles, given, (about_bits, about_q_max, about_cycles))


def check_domain(domain: str | None) -> None:
    """Raise a ValueError unless the domain is one of the paper's, or none."""
    if domain is not None and domain not in DOMAINS:
        raise ValueError(f"unknown domain {domain!r}; {nearest(str(domain), DOMAINS)}")


def lowest_allowed(q_min: int | None, range_test: FoundLevel | None) -> int | None:
    """The width below which nothing may go, if one is given or found by a range test."""
    low, given, _ = _lowest(None, q_min, range_test)
    return low if given else None


def _lowest(domain: str | None, q_min: int | None, range_test: FoundLevel | None) -> tuple[int, bool, str]:
    """q_min, whether it was given, and the reason."""
    if q_min is not None and range_test is not None:
        raise ValueError("q_min is given twice: as itself and by the range test; leave one of them out")
    if range_test is not None:
        if range_test.q_min is None:
            raise ValueError(f"the range test found no q_min, so there is nothing to advise: {range_test.reason}")
        return range_test.q_min, True, f"range test: q_min is {range_test.q_min} bits. {range_test.reason}"
    if q_min is not None:
        return positive(q_min, "q_min"), True, f"given: q_min is {q_min} bits."
    if domain is None:
        return (
            UNKNOWN_Q_MIN,
            False,
            f"CPT 2021: without a domain q_min is {UNKNOWN_Q_MIN} bits, which served on its largest tasks (ImageNet, "
            "WikiText-103); the paper's domains lie between 3 and 5. A range test (bc.range_test) finds your own.",
        )
    low, where = DOMAINS[domain]
    return (
        low,
        False,
        f"paper, experiments: q_min is {low} bits in the domain {domain} ({where}). "
        "It recommends a range test (bc.range_test) to find your own.",
    )


def _cycles(steps: int, fine_tuning: bool) -> tuple[int, str]:
    if fine_tuning:
        return FEW_CYCLES, f"paper, recommendations: {FEW_CYCLES} cycles for short fine-tuning."
    if steps < DEFAULT_CYCLES * SHORTEST_CYCLE:
        return (
            FEW_CYCLES,
            f"bitcycle: {FEW_CYCLES} cycles, because the paper's {DEFAULT_CYCLES} would have fewer than "
            f"{SHORTEST_CYCLE} steps each in a training of {steps}.",
        )
    return DEFAULT_CYCLES, f"paper, findings: {DEFAULT_CYCLES} cycles are consistently good."
