"""Between which bits to move and in how many cycles, and which schedule suits which goal: the paper's rules, as far as
the evidence does not contradict them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bitcycle._support.names import nearest
from bitcycle.advice.answer import Alternative, percent
from bitcycle.advice.verdicts import verdict, widths_of_evidence
from bitcycle.schedules import DEFAULT_CYCLES, Constant, Schedule, schedule
from bitcycle.schedules.base import positive
from bitcycle.schedules.comparison import EARLY

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
"""In fewer steps, a cycle through several bit-widths is a jump rather than a curve."""

GOALS = ("cost", "balance", "quality")


class Position(StrEnum):
    """A position on the scale from most precision to lowest cost."""

    STATIC = "static"
    SMALL = "small"
    MEDIUM = "medium"
    MEDIUM_MIXTURE = "medium mixture"
    LOWER_STATIC = "lower static"
    DELAYED = "delayed"
    LARGE = "large"
    LARGE_MIXTURE = "large mixture"


SPECS = {
    Position.SMALL: "ETH",
    Position.MEDIUM: "CT",
    Position.DELAYED: f"delay({EARLY}, RTH)",
    Position.LARGE: "RTH",
}
"""The schedule at each position: among schedules of equal cost, one that starts high."""

REASONS = {
    Position.STATIC: "The baseline: q_max throughout.",
    Position.SMALL: "The small group: close to q_max most of the time.",
    Position.MEDIUM: "The medium group: as much time near q_min as near q_max.",
    Position.MEDIUM_MIXTURE: "A constant mixture of two widths that costs no more than the medium group.",
    Position.LOWER_STATIC: "The widest static width that costs no more than the medium group.",
    Position.DELAYED: f"The large group after q_max for the first {percent(EARLY)} of training.",
    Position.LARGE: "The large group: close to q_min most of the time.",
    Position.LARGE_MIXTURE: "A constant mixture of two widths that costs no more than the large group.",
}
"""What each position is."""

PAPER = {
    "small-over-medium": "recommendations: the small group for the highest quality (hard, large tasks)",
    "small-matches-static": "findings: many schedules beat static q_max",
    "medium-matches-static": "recommendations: the medium group for a balance of cost and quality",
    "graphs-tolerate-large": "recommendations: the large group for the lowest cost, with graph networks and easy tasks",
    "others-suffer-from-large": "findings: large, hard tasks suffer from the large group",
    "high-start": "critical learning periods: of two schedules of equal cost, the one that starts high is better",
    "early-damage-lasts": "critical learning periods: a long period of low precision at the start does lasting damage",
    "later-hurts-less": "critical learning periods: the same later hurts less",
    "delay-avoids-damage": "recommendations: delay low precision",
    "eight-cycles-against-two": f"findings: {DEFAULT_CYCLES} cycles are consistently good",
    "two-cycles-for-fine-tuning": f"recommendations: {FEW_CYCLES} cycles for short fine-tuning",
    "range-test-low-enough": "recommendations: find q_min by a range test (bc.range_test)",
}
"""What the paper says, by the id of the claim in evidence/claims.toml that tests it."""

CHEAPER = "medium-beats-cheaper-static"
MEDIUM_BEATS, LARGE_BEATS = "medium-beats-mixture", "large-beats-mixture"
"""The ids of claims that the paper does not make: cycles against controls."""

_LARGE_TIE = "RTH and RR cost about the same; RTH starts and ends at q_max, while RR starts at q_min"

TIES = {
    Position.SMALL: "ETH and ER cost about the same; ETH starts and ends at q_max, while ER starts at q_min",
    Position.MEDIUM: "CR, CT, LR, LT, ETV and RTV cost the same within 1.5 %; CT starts and ends at q_max, while CR "
    "(the schedule of CPT 2021, with the most published results) and ETV start low, and RTV, which starts highest, "
    "ends low",
    Position.DELAYED: _LARGE_TIE,
    Position.LARGE: _LARGE_TIE,
}
"""How the schedule at each position compares with others of equal cost."""


class FoundLevel(Protocol):
    """What advice needs to know about a range test."""

    @property
    def q_min(self) -> int | None: ...
    @property
    def reason(self) -> str: ...


@dataclass(frozen=True)
class SearchSpace:
    """The bits and cycles that advice works with, and the reasons for them."""

    steps: int
    q_min: int
    q_max: int
    cycles: int
    given: bool
    """Whether q_min comes from the user or from a range test, so that nothing may go below it."""
    about_bits: tuple[str, ...]
    about_cycles: tuple[str, ...]

    def complete(self, spec: str) -> Schedule:
        """Return the schedule of a spec, with bits and cycles filled in."""
        return schedule(spec, (self.q_min, self.q_max), self.cycles)

    def saving(self, s: Schedule) -> float:
        """Return the share of the cost of static q_max that a schedule saves."""
        return s.saving(self.steps, self.q_max, against=self.q_max)


def search_space(
    domain: str | None,
    steps: int,
    fine_tuning: bool,
    q_max: int,
    q_min: int | None,
    range_test: FoundLevel | None,
) -> SearchSpace:
    """Choose bits and cycles by the paper's rules.

    >>> s = search_space("language", steps=1000, fine_tuning=True, q_max=8, q_min=None, range_test=None)
    >>> s.q_min, s.q_max, s.cycles
    (5, 8, 2)
    """
    steps, q_max = positive(steps, "the number of steps"), positive(q_max, "q_max")
    check_domain(domain)
    low, given, about_bits = _lowest(domain, q_min, range_test)
    if low >= q_max:
        hint = "" if given else "; give q_min, or the result of a range test"
        raise ValueError(f"q_min {low} leaves nothing to schedule below q_max {q_max}: train at static:{q_max}{hint}")
    cycles, about_cycles = _cycles(steps, fine_tuning, domain)
    about_q_max = f"given: q_max is the static width that you would train at, here {q_max} bits."
    about_test = [] if given else [told("range-test-low-enough", domain)]
    return SearchSpace(steps, low, q_max, cycles, given, (about_bits, *about_test, about_q_max), tuple(about_cycles))


def check_domain(domain: str | None) -> None:
    """Raise a ValueError unless the domain is None or one of the paper's."""
    if domain is not None and domain not in DOMAINS:
        raise ValueError(f"unknown domain {domain!r}; {nearest(str(domain), DOMAINS)}")


def lowest_allowed(q_min: int | None, range_test: FoundLevel | None) -> int | None:
    """Return the lowest bit-width that may be used, if it is given or found by a range test."""
    low, given, _ = _lowest(None, q_min, range_test)
    return low if given else None


def _lowest(domain: str | None, q_min: int | None, range_test: FoundLevel | None) -> tuple[int, bool, str]:
    """Return q_min, whether it was given or found, and the reason."""
    if q_min is not None and range_test is not None:
        raise ValueError("q_min is given twice: by q_min and by range_test; give only one of them")
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
            f"CPT 2021: without a domain, q_min is {UNKNOWN_Q_MIN} bits, which worked on its largest tasks (ImageNet, "
            "WikiText-103); the paper used 3 to 5. A range test finds your own.",
        )
    low, where = DOMAINS[domain]
    return (
        low,
        False,
        f"experiments of the paper: q_min is {low} bits in the domain {domain} ({where}). A range test finds your own.",
    )


def told(claim: str, domain: str | None) -> str:
    """Return what the paper says, and what the evidence says about the claim that tests it."""
    return f"paper, {PAPER[claim]}. {found(claim, domain)}"


def found(claim: str, domain: str | None) -> str:
    """Return what the evidence says about a claim, on the user's domain if it was tested there."""
    known = verdict(claim, domain)
    return f"Evidence on '{known.claim.removesuffix('.')}': {known.finding}."


def about_evidence() -> list[str]:
    """Return what the evidence rests on; nothing if there is none."""
    bits = widths_of_evidence()
    return [f"Evidence: from small tasks, at {bits} bits; your own runs (records) count more."] if bits else []


def _cycles(steps: int, fine_tuning: bool, domain: str | None) -> tuple[int, list[str]]:
    if fine_tuning:
        return FEW_CYCLES, [told("two-cycles-for-fine-tuning", domain)]
    if steps < DEFAULT_CYCLES * SHORTEST_CYCLE:
        reason = (
            f"bitcycle: {FEW_CYCLES} cycles, because in {steps} steps the paper's {DEFAULT_CYCLES} would have fewer "
            f"than {SHORTEST_CYCLE} steps each."
        )
        return FEW_CYCLES, [reason]
    return DEFAULT_CYCLES, [told("eight-cycles-against-two", domain)]


def scale(space: SearchSpace, domain: str | None) -> dict[Position, Alternative]:
    """Return the alternative at every position that there is, from static q_max to the lowest cost.

    A group that the evidence shows not to beat a schedule without cycles gives way to that schedule.
    """
    medium, large = space.complete(SPECS[Position.MEDIUM]), space.complete(SPECS[Position.LARGE])
    schedules: dict[Position, Schedule | None] = {
        Position.STATIC: Constant(space.q_max),
        Position.SMALL: space.complete(SPECS[Position.SMALL]),
        Position.LOWER_STATIC: _lower_static(space, space.saving(medium)),
    }
    if not verdict(CHEAPER, domain).is_contradicted:
        schedules[Position.MEDIUM] = medium
    elif schedules[Position.LOWER_STATIC] is None:
        rejected = verdict(MEDIUM_BEATS, domain).is_contradicted
        at = Position.MEDIUM_MIXTURE if rejected else Position.MEDIUM
        schedules[at] = mixture(space, space.saving(medium)) if rejected else medium
    if verdict(LARGE_BEATS, domain).is_contradicted:
        schedules[Position.LARGE_MIXTURE] = mixture(space, space.saving(large))
    else:
        schedules |= {Position.DELAYED: space.complete(SPECS[Position.DELAYED]), Position.LARGE: large}
    return {at: Alternative(s, space.saving(s), REASONS[at]) for at, s in schedules.items() if s is not None}


def _lower_static(space: SearchSpace, saving: float) -> Schedule | None:
    """Return the widest static width above q_min that saves a share; None if only q_min does."""
    widths = (Constant(width) for width in range(space.q_max - 1, space.q_min, -1))
    return next((static for static in widths if space.saving(static) >= saving), None)


def mixture(space: SearchSpace, saving: float) -> Schedule | None:
    """Return the widest constant mixture of two widths, in thousandths of a bit, that saves at least a share."""

    def mixed(thousandths: int) -> Schedule:
        return schedule(f"static:{thousandths / 1000:g}")

    def too_wide(thousandths: int) -> bool:
        return space.saving(mixed(thousandths)) < saving

    low, high = 1000 * space.q_min, 1000 * space.q_max
    return None if too_wide(low) else mixed(low + bisect_left(range(low + 1, high + 1), True, key=too_wide))


def position(goal: str, domain: str | None, alternatives: Container[Position]) -> tuple[Position, list[str]]:
    """Return the position for a goal with its reasons: the paper's, unless the evidence contradicts it."""
    if goal == "quality":
        return _highest_quality(domain)
    if goal == "balance":
        return _balance(domain, alternatives)
    return _lowest_cost(domain, alternatives)


def check_goal(goal: str) -> None:
    """Raise a ValueError unless the goal is one of the known ones."""
    if goal not in GOALS:
        raise ValueError(f"unknown goal {goal!r}; {nearest(str(goal), GOALS)}")


def _highest_quality(domain: str | None) -> tuple[Position, list[str]]:
    reasons = [told("small-over-medium", domain), told("small-matches-static", domain)]
    if verdict("small-matches-static", domain).is_contradicted:
        return Position.STATIC, [*reasons, "Therefore: static q_max."]
    return Position.SMALL, reasons


def _balance(domain: str | None, alternatives: Container[Position]) -> tuple[Position, list[str]]:
    lower = f"bitcycle: compare with a lower static width, which costs less. {found(CHEAPER, domain)}"
    reasons = [told("medium-matches-static", domain), lower]
    if Position.MEDIUM_MIXTURE in alternatives:
        mixed = f"bitcycle: no static width in between is as cheap, but a mixture is. {found(MEDIUM_BEATS, domain)}"
        return Position.MEDIUM_MIXTURE, [*reasons, mixed]
    if Position.MEDIUM in alternatives:
        return Position.MEDIUM, reasons
    return Position.LOWER_STATIC, [*reasons, "Therefore: that static width."]


def _lowest_cost(domain: str | None, alternatives: Container[Position]) -> tuple[Position, list[str]]:
    tolerated, suffered = "graphs-tolerate-large", "others-suffer-from-large"
    if domain == "graph":
        reasons, hurts = [told(tolerated, domain)], verdict(tolerated, domain).is_contradicted
    elif domain is not None:
        reasons, hurts = [told(suffered, domain)], not verdict(suffered, domain).is_contradicted
    else:
        reasons = [told(tolerated, domain), told(suffered, domain)]
        hurts = verdict(tolerated, domain).is_contradicted or verdict(suffered, domain).is_supported
    reasons.append(
        f"bitcycle: compare with a constant mixture of two widths at the same cost. {found(LARGE_BEATS, domain)}"
    )
    if Position.LARGE_MIXTURE in alternatives:
        return Position.LARGE_MIXTURE, [*reasons, "Therefore: the mixture."]
    if hurts and not verdict("delay-avoids-damage", domain).is_contradicted:
        delayed = f"Therefore: q_max for the first {percent(EARLY)} of training."
        return Position.DELAYED, [*reasons, told("delay-avoids-damage", domain), delayed]
    return Position.LARGE, reasons


def start_reasons(at: Position, space: SearchSpace, chosen: Alternative, domain: str | None) -> list[str]:
    """Say why it is this schedule of its group, and what precision the start of training gets."""
    if at not in TIES:  # without cycles
        return []
    early = chosen.schedule.mean_bits(space.steps, EARLY)
    hold = "holds" if at is Position.DELAYED else "would hold"
    return [
        f"bitcycle: {TIES[at]}.",
        told("high-start", domain),
        told("early-damage-lasts", domain),
        told("later-hurts-less", domain),
        f"bitcycle: the first {percent(EARLY)} of training has {early:.1f} bits on average; delay({EARLY}, ...) {hold} "
        "q_max there.",
        *space.about_cycles,
    ]
