"""The rules of advice: which schedule suits which goal, between which bits, and in how many cycles.

:data:`RULES` names, for each rule, the claim of the evidence that tests it. A rule of the paper is followed unless more
domains contradict its claim than support it. :data:`OPTIONS` is the scale from most precision to lowest cost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container
from dataclasses import dataclass
from typing import Protocol

from bitcycle._support.names import nearest
from bitcycle.lab.advice.answer import Alternative, Reason, percent
from bitcycle.lab.advice.verdicts import verdict
from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.schedules import Constant, Schedule, schedule
from bitcycle.schedules.base import validate_positive
from bitcycle.schedules.comparison import EARLY
from bitcycle.schedules.registry import DEFAULT_CYCLES

DOMAINS = {name: (task.paper_q_min, task.paper_setting) for name, task in BUILT_IN.items()}
"""q_min that the paper used in each domain, and where."""

UNKNOWN_Q_MIN = 4
"""q_min without a domain: CPT (2021) used it on its largest tasks, ImageNet and WikiText-103."""
FEW_CYCLES = 2
MIN_CYCLE_STEPS = 10
"""In fewer steps, a cycle through several bit-widths is a jump rather than a curve."""

GOALS = ("cost", "balance", "quality")

CHEAPER_STATIC = "medium-beats-cheaper-static"
MEDIUM_MIXTURE, LARGE_MIXTURE = "medium-beats-mixture", "large-beats-mixture"

RULES = {
    "small-over-medium": ("paper", "the small group for the highest quality"),
    "small-matches-static": ("paper", "the small group is as good as static q_max"),
    "medium-matches-static": ("paper", "the medium group for a balance of cost and quality"),
    "graphs-tolerate-large": ("paper", "the large group for the lowest cost, with graph networks"),
    "others-suffer-from-large": ("paper", "large, hard tasks suffer from the large group"),
    "high-start": ("paper", "of two schedules of equal cost, the one that starts high"),
    "early-damage-lasts": ("paper", "no long period of low precision at the start: its damage lasts"),
    "delay-avoids-damage": ("paper", f"delay low precision, here by {percent(EARLY)} of training"),
    "eight-cycles-against-two": ("paper", f"{DEFAULT_CYCLES} cycles"),
    "two-cycles-for-fine-tuning": ("paper", f"{FEW_CYCLES} cycles for short fine-tuning"),
    "range-test-low-enough": ("paper", "find q_min by a range test (bc.range_test)"),
    CHEAPER_STATIC: ("bitcycle", "cycles of the medium group only if they beat the next lower static width"),
    MEDIUM_MIXTURE: ("bitcycle", "cycles of the medium group only if they beat a mixture of two widths of equal cost"),
    LARGE_MIXTURE: ("bitcycle", "cycles of the large group only if they beat a mixture of two widths of equal cost"),
}
"""Source and text of each rule, by the id of the claim in evidence/claims.toml that tests it."""

OPTIONS = {
    "static": "q_max throughout",
    "small": "the small group, close to q_max most of the time",
    "medium": "the medium group, as much time near q_min as near q_max",
    "medium mixture": "a constant mixture of two widths that costs no more than the medium group",
    "lower static": "the widest static width that costs no more than the medium group",
    "delayed": f"the large group after q_max for the first {percent(EARLY)} of training",
    "large": "the large group, close to q_min most of the time",
    "large mixture": "a constant mixture of two widths that costs no more than the large group",
}
"""What each option is."""

SPECS = {"small": "ETH", "medium": "CT", "delayed": f"delay({EARLY}, RTH)", "large": "RTH"}
"""The options with cycles: of the schedules of a group, which cost about the same, one that starts and ends high."""


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
    about_bits: tuple[Reason, ...]
    about_cycles: Reason

    def complete(self, spec: str) -> Schedule:
        """Return the schedule of a spec, with bits and cycles filled in."""
        return schedule(spec, (self.q_min, self.q_max), self.cycles)

    def saving(self, s: Schedule) -> float:
        """Return the share of the cost of static q_max that a schedule saves."""
        return s.saving(self.steps, self.q_max, against=self.q_max)

    def mixture(self, saving: float) -> Schedule | None:
        """Return the widest constant mixture of two widths, in thousandths of a bit, that saves at least a share."""

        def mixed(thousandths: int) -> Schedule:
            return schedule(f"static:{thousandths / 1000:g}")

        def too_wide(thousandths: int) -> bool:
            return self.saving(mixed(thousandths)) < saving

        low, high = 1000 * self.q_min, 1000 * self.q_max
        return None if too_wide(low) else mixed(low + bisect_left(range(low + 1, high + 1), True, key=too_wide))

    def lower_static(self, saving: float) -> Schedule | None:
        """Return the widest static width above q_min that saves at least a share; None if only q_min does."""
        widths = (Constant(width) for width in range(self.q_max - 1, self.q_min, -1))
        return next((static for static in widths if self.saving(static) >= saving), None)


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
    steps, q_max = validate_positive(steps, "the number of steps"), validate_positive(q_max, "q_max")
    check_domain(domain)
    low, given, about_q_min = _lowest(domain, q_min, range_test)
    if low >= q_max:
        hint = "" if given else "; give q_min, or the result of a range test"
        raise ValueError(f"q_min {low} leaves nothing to schedule below q_max {q_max}: train at static:{q_max}{hint}")
    about_q_max = Reason("given", f"q_max is the static width that you would train at, here {q_max} bits")
    about_test = [] if given else [cite("range-test-low-enough", domain)]
    cycles, about_cycles = DEFAULT_CYCLES, cite("eight-cycles-against-two", domain)
    if fine_tuning:
        cycles, about_cycles = FEW_CYCLES, cite("two-cycles-for-fine-tuning", domain)
    elif steps < DEFAULT_CYCLES * MIN_CYCLE_STEPS:
        short = f"{DEFAULT_CYCLES} cycles in {steps} steps would have fewer than {MIN_CYCLE_STEPS} steps each"
        cycles, about_cycles = FEW_CYCLES, Reason("bitcycle", f"{FEW_CYCLES} cycles: {short}")
    return SearchSpace(steps, low, q_max, cycles, given, (about_q_min, *about_test, about_q_max), about_cycles)


def check_domain(domain: str | None) -> None:
    """Raise a ValueError unless the domain is None or one of the paper's."""
    if domain is not None and domain not in DOMAINS:
        raise ValueError(f"unknown domain {domain!r}; {nearest(str(domain), DOMAINS)}")


def check_goal(goal: str) -> None:
    """Raise a ValueError unless the goal is one of the known ones."""
    if goal not in GOALS:
        raise ValueError(f"unknown goal {goal!r}; {nearest(str(goal), GOALS)}")


def lowest_allowed(q_min: int | None, range_test: FoundLevel | None) -> int | None:
    """Return the lowest bit-width that may be used, if it is given or found by a range test."""
    low, given, _ = _lowest(None, q_min, range_test)
    return low if given else None


def _lowest(domain: str | None, q_min: int | None, range_test: FoundLevel | None) -> tuple[int, bool, Reason]:
    """Return q_min, whether it was given or found, and the reason."""
    if q_min is not None and range_test is not None:
        raise ValueError("q_min is given twice: by q_min and by range_test; give only one of them")
    if range_test is not None:
        if range_test.q_min is None:
            raise ValueError(f"the range test found no q_min, so there is nothing to advise: {range_test.reason}")
        return range_test.q_min, True, Reason("range test", f"q_min is {range_test.q_min} bits. {range_test.reason}")
    if q_min is not None:
        return validate_positive(q_min, "q_min"), True, Reason("given", f"q_min is {q_min} bits")
    low, where = DOMAINS[domain] if domain else (UNKNOWN_Q_MIN, "ImageNet and WikiText-103 in CPT, 2021")
    return low, False, Reason("paper", f"q_min is {low} bits ({where}); a range test finds your own")


def cite(claim: str, domain: str | None) -> Reason:
    """Return a rule with the verdict on the claim that tests it, on the user's domain if it was tested there."""
    return Reason(*RULES[claim], verdict(claim, domain).describe(names=domain is not None))


def scale(space: SearchSpace, domain: str | None) -> dict[str, Alternative]:
    """Return every option that there is, from static q_max to the lowest cost.

    A group that the evidence shows not to beat a schedule without cycles gives way to that schedule.
    """
    medium, large = space.complete(SPECS["medium"]), space.complete(SPECS["large"])
    schedules: dict[str, Schedule | None] = {
        "static": Constant(space.q_max),
        "small": space.complete(SPECS["small"]),
        "lower static": space.lower_static(space.saving(medium)),
    }
    if not verdict(CHEAPER_STATIC, domain).is_contradicted:
        schedules["medium"] = medium
    elif schedules["lower static"] is None and verdict(MEDIUM_MIXTURE, domain).is_contradicted:
        schedules["medium mixture"] = space.mixture(space.saving(medium))
    elif schedules["lower static"] is None:
        schedules["medium"] = medium
    if verdict(LARGE_MIXTURE, domain).is_contradicted:
        schedules["large mixture"] = space.mixture(space.saving(large))
    else:
        schedules |= {"delayed": space.complete(SPECS["delayed"]), "large": large}
    return {name: Alternative(s, space.saving(s), OPTIONS[name]) for name, s in schedules.items() if s is not None}


def choose(goal: str, domain: str | None, options: Container[str]) -> tuple[str, list[Reason]]:
    """Return the option for a goal and the rules it rests on: the paper's, unless the evidence contradicts it."""

    def contradicted(claim: str) -> bool:
        return verdict(claim, domain).is_contradicted

    if goal == "quality":
        claims = ["small-over-medium", "small-matches-static"]
        chosen = "static" if contradicted("small-matches-static") else "small"
    elif goal == "balance":
        claims = ["medium-matches-static", CHEAPER_STATIC]
        chosen = next(name for name in ("medium mixture", "medium", "lower static") if name in options)
        claims += [MEDIUM_MIXTURE] if chosen == "medium mixture" else []
    else:
        claims = ["graphs-tolerate-large"] if domain in (None, "graph") else []
        claims += ["others-suffer-from-large"] if domain != "graph" else []
        hurts = "graphs-tolerate-large" in claims and contradicted("graphs-tolerate-large")
        if domain is None:
            hurts |= verdict("others-suffer-from-large").is_supported
        elif domain != "graph":
            hurts |= not contradicted("others-suffer-from-large")
        claims.append(LARGE_MIXTURE)
        delays = hurts and not contradicted("delay-avoids-damage")
        chosen = "large mixture" if "large mixture" in options else "delayed" if delays else "large"
        claims += ["delay-avoids-damage"] if chosen == "delayed" else []
    claims += ["high-start", "early-damage-lasts"] if chosen in SPECS else []
    return chosen, [cite(claim, domain) for claim in claims]
