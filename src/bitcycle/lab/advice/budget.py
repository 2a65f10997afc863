"""Find the schedule that saves a given share of the cost, within a percentage point."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from bitcycle.lab.advice.answer import Reason, percent
from bitcycle.lab.advice.rules import LARGE_MIXTURE, MEDIUM_MIXTURE, SearchSpace, cite
from bitcycle.lab.advice.verdicts import verdict
from bitcycle.schedules import Constant, Cyclic, Mixed, Schedule, schedule
from bitcycle.schedules.combinators import Delay

MAX_SURPLUS = 0.01
LEAST_AGGRESSIVE_FIRST = ("ETH", "CT", "LT", "RTH")
MAX_DELAY = 0.5
MIN_BITS = 2
"""The lowest q_min, in bits, that a budget alone may lead to; the range test of CPT starts here."""
MAX_SHARPNESS = 0.999
"""The constant of rex at which a schedule is almost static q_min."""
MIN_SHARPNESS = 0.9


def validate_saving(budget: float) -> float:
    """Return the share to save if it can be one."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 < budget < 1:
        raise ValueError(f"save must be a share of the cost above 0 and below 1, such as 0.4 for 40 %, got {budget!r}")
    return budget


def meet(budget: float, space: SearchSpace, domain: str | None = None) -> tuple[Schedule, list[Reason]]:
    """Return the schedule whose saving is the budget or up to a percentage point more, with the reasons for it.

    It is a constant mixture of two widths if the evidence shows that cycles do not beat one at equal cost, and if the
    mixture need not go below q_min. Otherwise it has cycles.

    A group of the paper that saves too much is delayed: q_max for a share ``f`` of training leaves about ``1 - f`` of
    its saving, and puts the precision at the start. Tried in this order: the least aggressive group that reaches the
    budget at q_min, delayed by up to half of training; the same at a higher q_min; a sharper rex curve, up to almost
    static q_min; and, unless q_min was given, a lower q_min.
    """
    budget = validate_saving(budget)
    lowest = space.q_min if space.given else min(MIN_BITS, space.q_min)
    claims = (MEDIUM_MIXTURE, LARGE_MIXTURE)
    for s in _candidates(budget, space, lowest):
        if s is not None:
            mixtures_win = all(verdict(claim, domain).is_contradicted for claim in claims)
            mixed = space.mixture(budget) if mixtures_win else None
            cycles = [Reason("bitcycle", f"{s} is a cyclic schedule with the same saving")] if mixed else []
            chosen = mixed or s
            cited = [cite(claim, domain) for claim in claims]
            return chosen, [*_reasons(chosen, budget, space), *cycles, *cited]
    most = replace(space, q_min=lowest).complete(f"RTH:constant={MAX_SHARPNESS}")
    reached = math.floor(1000 * space.saving(most)) / 1000  # rounded down, so that asking for it succeeds
    raise ValueError(
        f"no schedule from {lowest} to {space.q_max} bits saves {percent(budget)} of static {space.q_max} bits: "
        f"the most is {percent(reached)}, by {most}"
    )


def _candidates(budget: float, space: SearchSpace, lowest: int) -> Iterator[Schedule | None]:
    """Yield what to try, in order of preference."""
    at = {q: replace(space, q_min=q) for q in range(lowest, space.q_max)}
    for q in range(space.q_min, space.q_max):
        yield _delayed(budget, at[q], MAX_DELAY)
    for q in range(space.q_max - 1, space.q_min - 1, -1):
        yield _delayed(budget, at[q], longest=1.0)
    yield _sharpened(budget, space)
    for q in range(space.q_min - 1, lowest - 1, -1):
        yield _delayed(budget, at[q], longest=1.0)
        yield _sharpened(budget, at[q])


def _delayed(budget: float, space: SearchSpace, longest: float) -> Schedule | None:
    """Return the least aggressive of the paper's schedules that reaches the budget, delayed until it just does."""
    reaching = [s for s in map(space.complete, LEAST_AGGRESSIVE_FIRST) if space.saving(s) >= budget]
    for s in reaching:
        if space.saving(s) <= budget + MAX_SURPLUS:
            return s
    for s in reaching:
        hold = 1 - budget / space.saving(s)
        if hold <= longest:
            return _held(s, hold, budget, space)
    return None


def _held(s: Schedule, hold: float, budget: float, space: SearchSpace) -> Schedule:
    """Delay a schedule by as many thousandths of training as the budget allows."""
    for thousandths in range(math.floor(1000 * hold), 0, -1):
        delayed = schedule(f"delay({thousandths / 1000}, {s})")
        if space.saving(delayed) >= budget:
            return delayed
    return s


def _sharpened(budget: float, space: SearchSpace) -> Schedule | None:
    """Return RTH with the smallest constant, in thousandths, that reaches the budget."""
    low, high = round(1000 * MIN_SHARPNESS), round(1000 * MAX_SHARPNESS)

    def sharper(thousandths: int) -> Schedule:
        return space.complete(f"RTH:constant={thousandths / 1000}")

    def reaches(thousandths: int) -> bool:
        return space.saving(sharper(thousandths)) >= budget

    return sharper(low + bisect_left(range(low, high), True, key=reaches)) if reaches(high) else None


def _reasons(s: Schedule, budget: float, space: SearchSpace) -> list[Reason]:
    q_min, _ = s.limits(space.steps)
    reasons = [Reason("budget", f"save at least {percent(budget)}; this saves {percent(space.saving(s))}")]
    if isinstance(s, Delay):
        reasons.append(Reason("bitcycle", "the surplus over the budget is spent on q_max at the start of training"))
    if isinstance(s, Cyclic) and s.profile.changed():
        reasons.append(Reason("bitcycle", "the large group saves less, so its rex curve is sharpened (untested)"))
    if q_min is not None and q_min > space.q_min and not isinstance(s, (Constant, Mixed)):
        reasons.append(Reason("bitcycle", f"q_min {q_min} is enough for this budget"))
    if q_min is not None and q_min < space.q_min:
        usual = f"q_min {q_min} is below the usual {space.q_min} bits, without which the budget cannot be met"
        reasons.append(Reason("warning", f"{usual}; check by bc.range_test that training works there"))
    if space.saving(s) > budget + MAX_SURPLUS:
        reasons.append(Reason("bitcycle", f"in {space.steps} steps no schedule comes closer to the budget"))
    return reasons
