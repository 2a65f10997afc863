"""Find the schedule that saves a given share of the cost, within a percentage point."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bitcycle.advice.answer import percent
from bitcycle.advice.rules import LARGE_BEATS, MEDIUM_BEATS, SearchSpace, found, mixture
from bitcycle.advice.verdicts import verdict
from bitcycle.schedules import Constant, Cyclic, Mixed, Schedule, schedule
from bitcycle.schedules.combinators import Delay

POINT = 0.01
LEAST_AGGRESSIVE_FIRST = ("ETH", "CT", "LT", "RTH")
LONGEST_DELAY = 0.5
LOWEST = 2
"""The lowest q_min, in bits, that a budget alone may lead to; the range test of CPT starts here."""
SHARPEST = 0.999
"""The constant of rex at which a schedule is almost static q_min."""
SHARP = 0.9


@dataclass(frozen=True)
class Solution:
    """A schedule that meets a budget, and the reasons for it."""

    schedule: Schedule
    saving: float
    reasons: tuple[str, ...]


def checked_saving(budget: float) -> float:
    """Return the share to save if it can be one."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 < budget < 1:
        raise ValueError(f"save must be a share of the cost above 0 and below 1, such as 0.4 for 40 %, got {budget!r}")
    return budget


def meet(budget: float, space: SearchSpace, domain: str | None = None) -> Solution:
    """Return the schedule whose saving is the budget or up to a percentage point more.

    It is a constant mixture of two widths if the evidence shows that cycles do not beat one at equal cost, and if the
    mixture need not go below q_min. Otherwise it has cycles.

    A group of the paper that saves too much is delayed: q_max for a share ``f`` of training leaves about ``1 - f`` of
    its saving, and puts the precision at the start. Tried in this order: the least aggressive group that reaches the
    budget at q_min, delayed by up to half of training; the same at a higher q_min; a sharper rex curve, up to almost
    static q_min; and, unless q_min was given, a lower q_min.
    """
    budget = checked_saving(budget)
    lowest = space.q_min if space.given else min(LOWEST, space.q_min)
    for s in _candidates(budget, space, lowest):
        if s is not None:
            evidence = [found(claim, domain) for claim in (MEDIUM_BEATS, LARGE_BEATS)]
            mixed = mixture(space, budget) if _mixtures_win(domain) else None
            about = (
                [f"bitcycle: {s} is a cyclic schedule with the same saving.", *evidence, "Therefore: the mixture."]
                if mixed
                else evidence
            )
            chosen = mixed or s
            return Solution(chosen, space.saving(chosen), (*_reasons(chosen, budget, space), *about))
    most = replace(space, q_min=lowest).complete(f"RTH:constant={SHARPEST}")
    reached = math.floor(1000 * space.saving(most)) / 1000  # rounded down, so that asking for it succeeds
    raise ValueError(
        f"no schedule from {lowest} to {space.q_max} bits saves {percent(budget)} of static {space.q_max} bits: "
        f"the most is {percent(reached)}, by {most}"
    )


def _mixtures_win(domain: str | None) -> bool:
    return all(verdict(claim, domain).is_contradicted for claim in (MEDIUM_BEATS, LARGE_BEATS))


def _candidates(budget: float, space: SearchSpace, lowest: int) -> Iterator[Schedule | None]:
    """Yield what to try, in order of preference."""
    at = {q: replace(space, q_min=q) for q in range(lowest, space.q_max)}
    for q in range(space.q_min, space.q_max):
        yield _delayed(budget, at[q], LONGEST_DELAY)
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
        if space.saving(s) <= budget + POINT:
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
    low, high = round(1000 * SHARP), round(1000 * SHARPEST)

    def sharper(thousandths: int) -> Schedule:
        return space.complete(f"RTH:constant={thousandths / 1000}")

    def reaches(thousandths: int) -> bool:
        return space.saving(sharper(thousandths)) >= budget

    return sharper(low + bisect_left(range(low, high), True, key=reaches)) if reaches(high) else None


def _reasons(s: Schedule, budget: float, space: SearchSpace) -> list[str]:
    q_min, _ = s.limits(space.steps)
    reasons = [f"budget: save at least {percent(budget)}; this saves {percent(space.saving(s))}."]
    if isinstance(s, Delay):
        reasons.append("bitcycle: the surplus over the budget is spent on q_max at the start of training.")
    if isinstance(s, Cyclic) and s.profile.changed():
        reasons.append(
            "bitcycle: the paper's large group saves less, so its rex curve is sharpened, which is untested."
        )
    if q_min is not None and q_min > space.q_min and not isinstance(s, (Constant, Mixed)):
        reasons.append(f"bitcycle: q_min {q_min} is enough for this budget.")
    if q_min is not None and q_min < space.q_min:
        reasons.append(
            f"warning: q_min {q_min} is below the usual {space.q_min} bits (see below); the budget cannot be met "
            "otherwise. Run a range test (bc.range_test) to check that training works there."
        )
    if space.saving(s) > budget + POINT:
        reasons.append(f"bitcycle: in {space.steps} steps no schedule comes closer to the budget.")
    return reasons
