"""The rules of advice: which schedule suits which goal, between which bits, and in how many cycles.

:data:`RULES` names, for each rule, the claim of the evidence that tests it. A rule of the paper is followed unless more
domains contradict its claim than support it. :data:`OPTIONS` is the scale from most precision to lowest cost.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Container
from dataclasses import dataclass, replace

from bitcycle.lab.advice.answer import Alternative, Reason
from bitcycle.lab.advice.verdicts import verdict
from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.lab.format import percent
from bitcycle.lab.schedule_summary import EARLY, complete
from bitcycle.schedules import Constant, Schedule, schedule
from bitcycle.schedules.base import DEFAULT_CYCLES
from bitcycle.schedules.combinators import Delay

DOMAINS = {name: (task.paper_q_min, task.paper_setting) for name, task in BUILT_IN.items()}
"""q_min that the paper used in each domain, and where."""
UNKNOWN_DOMAIN = (4, "ImageNet and WikiText-103 in CPT, 2021")
"""q_min without a domain: CPT (2021) used it on its largest tasks."""
FEW_CYCLES = 2
MIN_CYCLE_STEPS = 10
"""In fewer steps, a cycle through several bit-widths is a jump rather than a curve."""

MAX_SURPLUS = 0.01
"""A schedule may save this much more than a budget."""
MIN_BITS = 2
"""The lowest q_min, in bits, that a budget alone may lead to; the range test of CPT starts here."""
LEAST_AGGRESSIVE_FIRST = ("ETH", "CT", "LT", "RTH")

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
    "delay-avoids-damage": ("paper", f"delay low precision, here by {percent(EARLY, 0)} of training"),
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
    "delayed": f"the large group after q_max for the first {percent(EARLY, 0)} of training",
    "large": "the large group, close to q_min most of the time",
    "large mixture": "a constant mixture of two widths that costs no more than the large group",
}
"""What each option is."""

CYCLIC = {"small": "ETH", "medium": "CT", "delayed": f"delay({EARLY}, RTH)", "large": "RTH"}
"""The options with cycles: of the schedules of a group, which cost about the same, one that starts and ends high."""


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
        return complete(spec, (self.q_min, self.q_max), self.cycles)

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
    domain: str | None, steps: int, fine_tuning: bool, q_max: int, about_q_min: tuple[int, Reason] | None = None
) -> SearchSpace:
    """Choose bits and cycles by the paper's rules; ``about_q_min`` is a q_min that is given, with where it comes from.

    >>> s = search_space("language", steps=1000, fine_tuning=True, q_max=8)
    >>> s.q_min, s.q_max, s.cycles
    (5, 8, 2)
    """
    given = about_q_min is not None
    if about_q_min is None:
        low, where = DOMAINS[domain] if domain else UNKNOWN_DOMAIN
        about_q_min = low, Reason("paper", f"q_min is {low} bits ({where}); a range test finds your own")
    q_min, reason = about_q_min
    if q_min >= q_max:
        hint = "" if given else "; give q_min, or the result of a range test"
        raise ValueError(f"q_min {q_min} leaves nothing to schedule below q_max {q_max}: train at static:{q_max}{hint}")
    about_q_max = Reason("given", f"q_max is the static width that you would train at, here {q_max} bits")
    about_test = [] if given else [cite("range-test-low-enough", domain)]
    cycles, about_cycles = DEFAULT_CYCLES, cite("eight-cycles-against-two", domain)
    if fine_tuning:
        cycles, about_cycles = FEW_CYCLES, cite("two-cycles-for-fine-tuning", domain)
    elif steps < DEFAULT_CYCLES * MIN_CYCLE_STEPS:
        short = f"{DEFAULT_CYCLES} cycles in {steps} steps would have fewer than {MIN_CYCLE_STEPS} steps each"
        cycles, about_cycles = FEW_CYCLES, Reason("bitcycle", f"{FEW_CYCLES} cycles: {short}")
    return SearchSpace(steps, q_min, q_max, cycles, given, (reason, *about_test, about_q_max), about_cycles)


def cite(claim: str, domain: str | None) -> Reason:
    """Return a rule with the verdict on the claim that tests it, on the user's domain if it was tested there."""
    return Reason(*RULES[claim], verdict(claim, domain).describe(names=domain is not None))


def scale(space: SearchSpace, domain: str | None) -> dict[str, Alternative]:
    """Return every option that there is, from static q_max to the lowest cost.

    A group that the evidence shows not to beat a schedule without cycles gives way to that schedule.
    """
    cyclic = {name: space.complete(spec) for name, spec in CYCLIC.items()}
    lower = space.lower_static(space.saving(cyclic["medium"]))
    found: dict[str, Schedule | None] = {
        "static": Constant(space.q_max),
        "small": cyclic["small"],
        "lower static": lower,
    }
    if not _refuted(CHEAPER_STATIC, domain) or (lower is None and not _refuted(MEDIUM_MIXTURE, domain)):
        found["medium"] = cyclic["medium"]
    elif lower is None:
        found["medium mixture"] = space.mixture(space.saving(cyclic["medium"]))
    if _refuted(LARGE_MIXTURE, domain):
        found["large mixture"] = space.mixture(space.saving(cyclic["large"]))
    else:
        found |= {"delayed": cyclic["delayed"], "large": cyclic["large"]}
    return {name: Alternative(s, space.saving(s), OPTIONS[name]) for name, s in found.items() if s is not None}


def choose(goal: str, domain: str | None, options: Container[str]) -> tuple[str, list[Reason]]:
    """Return the option for a goal and the rules it rests on: the paper's, unless the evidence contradicts it."""
    if goal == "quality":
        claims = ["small-over-medium", "small-matches-static"]
        chosen = "static" if _refuted("small-matches-static", domain) else "small"
    elif goal == "balance":
        claims = ["medium-matches-static", CHEAPER_STATIC]
        chosen = next(name for name in ("medium mixture", "medium", "lower static") if name in options)
        claims += [MEDIUM_MIXTURE] if chosen == "medium mixture" else []
    else:
        graphs, others = "graphs-tolerate-large", "others-suffer-from-large"
        claims = [graphs] if domain == "graph" else [graphs, others] if domain is None else [others]
        hurts = _refuted(graphs, domain) if graphs in claims else not _refuted(others, domain)
        hurts |= domain is None and verdict(others).is_supported
        delays = hurts and not _refuted("delay-avoids-damage", domain)
        chosen = "large mixture" if "large mixture" in options else "delayed" if delays else "large"
        claims += [LARGE_MIXTURE, *(["delay-avoids-damage"] if chosen == "delayed" else [])]
    claims += ["high-start", "early-damage-lasts"] if chosen in CYCLIC else []
    return chosen, [cite(claim, domain) for claim in claims]


def _refuted(claim: str, domain: str | None) -> bool:
    return verdict(claim, domain).is_contradicted


def meet(budget: float, space: SearchSpace, domain: str | None = None) -> tuple[Schedule, list[Reason]]:
    """Return the schedule whose saving is the budget or up to a percentage point more, with the reasons for it.

    It is one of the paper's schedules, delayed: q_max for a share ``f`` of training leaves about ``1 - f`` of its
    saving, and puts the precision at the start. It is a constant mixture of two widths if the evidence shows that
    cycles do not beat one at equal cost, or if no group saves that much. Unless q_min was given, it may be lowered.
    """
    claims = (MEDIUM_MIXTURE, LARGE_MIXTURE)
    mixtures_win = all(_refuted(claim, domain) for claim in claims)
    lowest = space.q_min if space.given else min(MIN_BITS, space.q_min)
    for q_min in range(space.q_min, lowest - 1, -1):
        narrowed = replace(space, q_min=q_min)
        chosen = (None if mixtures_win else _delayed(budget, narrowed)) or narrowed.mixture(budget)
        if chosen is not None:
            return chosen, [*_about_budget(chosen, budget, space), *(cite(claim, domain) for claim in claims)]
    reached = math.floor(1000 * space.saving(Constant(lowest))) / 1000  # rounded down, so that asking for it succeeds
    raise ValueError(
        f"no schedule from {lowest} to {space.q_max} bits saves {percent(budget)} of static {space.q_max} bits: "
        f"the most is {percent(reached)}, by static:{lowest}"
    )


def _delayed(budget: float, space: SearchSpace) -> Schedule | None:
    """Return the least aggressive of the paper's schedules that reaches the budget, delayed until it just does."""
    s = next((s for s in map(space.complete, LEAST_AGGRESSIVE_FIRST) if space.saving(s) >= budget), None)
    if s is None or space.saving(s) <= budget + MAX_SURPLUS:
        return s
    hold = 1 - budget / space.saving(s)
    delays = (schedule(f"delay({n / 1000}, {s})") for n in range(math.floor(1000 * hold), 0, -1))
    return next((delayed for delayed in delays if space.saving(delayed) >= budget), s)


def _about_budget(s: Schedule, budget: float, space: SearchSpace) -> list[Reason]:
    q_min, _ = s.limits(space.steps)
    reasons = [Reason("budget", f"save at least {percent(budget)}; this saves {percent(space.saving(s))}")]
    if isinstance(s, Delay):
        reasons.append(Reason("bitcycle", "the surplus over the budget is spent on q_max at the start of training"))
    if q_min is not None and q_min < space.q_min:
        usual = f"q_min {q_min} is below the usual {space.q_min} bits, without which the budget cannot be met"
        reasons.append(Reason("warning", f"{usual}; check by bc.range_test that training works there"))
    if space.saving(s) > budget + MAX_SURPLUS:
        reasons.append(Reason("bitcycle", f"in {space.steps} steps no schedule comes closer to the budget"))
    return reasons
