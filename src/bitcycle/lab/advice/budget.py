"""Find the schedule that saves a given share of the cost, within a percentage point."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from bitcycle.lab.advice.answer import Reason
from bitcycle.lab.advice.rules import LARGE_MIXTURE, MEDIUM_MIXTURE, SearchSpace, cite
from bitcycle.lab.advice.verdicts import verdict
from bitcycle.lab.format import percent
from bitcycle.schedules import Cyclic, Schedule, schedule
from bitcycle.schedules.combinators import Delay

MAX_SURPLUS = 0.01
LEAST_AGGRESSIVE_FIRST = ("ETH", "CT", "LT", "RTH")
MIN_BITS = 2
"""The lowest q_min, in bits, that a budget alone may lead to; the range test of CPT starts here."""
SHARPNESS = range(900, 999)
"""Constants of rex to try, in thousandths; at the end of the range a schedule is almost static q_min."""


def meet(budget: float, space: SearchSpace, domain: str | None = None) -> tuple[Schedule, list[Reason]]:
    """Return the schedule whose saving is the budget or up to a percentage point more, with the reasons for it.

    It is a constant mixture of two widths if the evidence shows that cycles do not beat one at equal cost, and if the
    mixture need not go below q_min. Otherwise it has cycles.

    A group of the paper that saves too much is delayed: q_max for a share ``f`` of training leaves about ``1 - f`` of
    its saving, and puts the precision at the start. Tried in this order: the least aggressive group that reaches the
    budget, delayed; a sharper rex curve, up to almost static q_min; and, unless q_min was given, a lower q_min.
    """
    lowest = space.q_min if space.given else min(MIN_BITS, space.q_min)
    cyclic = next((s for s in _candidates(budget, space, lowest) if s is not None), None)
    if cyclic is None:
        most = _sharper(SHARPNESS.stop, replace(space, q_min=lowest))
        reached = math.floor(1000 * space.saving(most)) / 1000  # rounded down, so that asking for it succeeds
        raise ValueError(
            f"no schedule from {lowest} to {space.q_max} bits saves {percent(budget)} of static {space.q_max} bits: "
            f"the most is {percent(reached)}, by {most}"
        )
    claims = (MEDIUM_MIXTURE, LARGE_MIXTURE)
    cited = [cite(claim, domain) for claim in claims]
    mixtures_win = all(verdict(claim, domain).is_contradicted for claim in claims)
    if mixtures_win and (mixed := space.mixture(budget)):
        same = Reason("bitcycle", f"{cyclic} is a cyclic schedule with the same saving")
        return mixed, [*_reasons(mixed, budget, space), same, *cited]
    return cyclic, [*_reasons(cyclic, budget, space), *cited]


def _candidates(budget: float, space: SearchSpace, lowest: int) -> Iterator[Schedule | None]:
    """Yield what to try, in order of preference."""
    for q_min in range(space.q_min, lowest - 1, -1):
        yield _delayed(budget, replace(space, q_min=q_min))
        yield _sharpened(budget, replace(space, q_min=q_min))


def _delayed(budget: float, space: SearchSpace) -> Schedule | None:
    """Return the least aggressive of the paper's schedules that reaches the budget, delayed until it just does."""
    s = next((s for s in map(space.complete, LEAST_AGGRESSIVE_FIRST) if space.saving(s) >= budget), None)
    if s is None or space.saving(s) <= budget + MAX_SURPLUS:
        return s
    hold = 1 - budget / space.saving(s)
    delays = (schedule(f"delay({n / 1000}, {s})") for n in range(math.floor(1000 * hold), 0, -1))
    return next((delayed for delayed in delays if space.saving(delayed) >= budget), s)


def _sharpened(budget: float, space: SearchSpace) -> Schedule | None:
    """Return RTH with the smallest constant that reaches the budget."""

    def reaches(thousandths: int) -> bool:
        return space.saving(_sharper(thousandths, space)) >= budget

    if not reaches(SHARPNESS.stop):
        return None
    return _sharper(SHARPNESS.start + bisect_left(SHARPNESS, True, key=reaches), space)


def _sharper(thousandths: int, space: SearchSpace) -> Schedule:
    return space.complete(f"RTH:constant={thousandths / 1000}")


def _reasons(s: Schedule, budget: float, space: SearchSpace) -> list[Reason]:
    q_min, _ = s.limits(space.steps)
    reasons = [Reason("budget", f"save at least {percent(budget)}; this saves {percent(space.saving(s))}")]
    if isinstance(s, Delay):
        reasons.append(Reason("bitcycle", "the surplus over the budget is spent on q_max at the start of training"))
    if isinstance(s, Cyclic) and s.profile.changed():
        reasons.append(Reason("bitcycle", "the large group saves less, so its rex curve is sharpened (untested)"))
    if q_min is not None and q_min < space.q_min:
        usual = f"q_min {q_min} is below the usual {space.q_min} bits, without which the budget cannot be met"
        reasons.append(Reason("warning", f"{usual}; check by bc.range_test that training works there"))
    if space.saving(s) > budget + MAX_SURPLUS:
        reasons.append(Reason("bitcycle", f"in {space.steps} steps no schedule comes closer to the budget"))
    return reasons
