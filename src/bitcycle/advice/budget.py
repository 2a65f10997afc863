"""Solve for the schedule that saves a given share of the cost, within a percentage point."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bitcycle.advice.answer import percent
from bitcycle.advice.setting import Setting
from bitcycle.schedules import Schedule, schedule

POINT = 0.01
LEAST_AGGRESSIVE_FIRST = ("ETH", "CT", "LT", "RTH")
LONGEST_DELAY = 0.5
LOWEST = 2
"""Bits: the lowest q_min that a budget alone may ask for; the range test of CPT starts here."""
SHARPEST = 0.999
"""The constant of rex at which a schedule is all but static q_min."""
SHARP = 0.9


@dataclass(frozen=True)
class Solution:
    """A schedule that meets a budget, and how it came about."""

    schedule: Schedule
    saving: float
    reasons: tuple[str, ...]


def share_to_save(budget: float) -> float:
    """The budget itself, if it can be one."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 < budget < 1:
        raise ValueError(f"save is a share of the cost above 0 and below 1, such as 0.4 for 40 %, not {budget!r}")
    return budget


def meet(budget: float, setting: Setting) -> Solution:
    """The schedule whose saving is the budget or up to a point more.

    A group of the paper that saves too much is delayed: q_max for a share ``f`` of training leaves about ``1 - f`` of
    its saving, and early precision is where it should be. In this order: the least aggressive group that reaches the
    budget at q_min, delayed by up to a half; the same at a higher q_min; a sharper rex curve, up to all but static
    q_min; and last, unless q_min was given, a lower q_min.
    """
    budget = share_to_save(budget)
    lowest = setting.q_min if setting.given else min(LOWEST, setting.q_min)
    for s in _candidates(budget, setting, lowest):
        if s is not None:
            return Solution(s, setting.saving(s), tuple(_reasons(s, budget, setting)))
    most = replace(setting, q_min=lowest).complete(f"RTH:constant={SHARPEST}")
    reached = math.floor(1000 * setting.saving(most)) / 1000  # rounded down, so that asking for it succeeds
    raise ValueError(
        f"no schedule from {lowest} to {setting.q_max} bits saves {percent(budget)} of static {setting.q_max} bits: "
        f"the most is {percent(reached)}, by {most}"
    )


def _candidates(budget: float, setting: Setting, lowest: int) -> Iterator[Schedule | None]:
    """What to try, in the order of preference."""
    at = {q: replace(setting, q_min=q) for q in range(lowest, setting.q_max)}
    for q in range(setting.q_min, setting.q_max):
        yield _delayed(budget, at[q], LONGEST_DELAY)
    for q in range(setting.q_max - 1, setting.q_min - 1, -1):
        yield _delayed(budget, at[q], longest=1.0)
    yield _sharpened(budget, setting)
    for q in range(setting.q_min - 1, lowest - 1, -1):
        yield _delayed(budget, at[q], longest=1.0)
        yield _sharpened(budget, at[q])


def _delayed(budget: float, setting: Setting, longest: float) -> Schedule | None:
    """The least aggressive of the paper's schedules that reaches the budget, delayed until it just does."""
    reaching = [s for s in map(setting.complete, LEAST_AGGRESSIVE_FIRST) if setting.saving(s) >= budget]
    for s in reaching:
        if setting.saving(s) <= budget + POINT:
            return s
    for s in reaching:
        hold = 1 - budget / setting.saving(s)
        if hold <= longest:
            return _held(s, hold, budget, setting)
    return None


def _held(s: Schedule, hold: float, budget: float, setting: Setting) -> Schedule:
    """The longest delay, in thousandths of training, that still meets the budget."""
    for thousandths in range(math.floor(1000 * hold), 0, -1):
        delayed = schedule(f"delay({thousandths / 1000}, {s})")
        if setting.saving(delayed) >= budget:
            return delayed
    return s


def _sharpened(budget: float, setting: Setting) -> Schedule | None:
    """RTH with the smallest constant, in thousandths, that reaches the budget."""
    low, high = round(1000 * SHARP), round(1000 * SHARPEST)

    def sharper(thousandths: int) -> Schedule:
        return setting.complete(f"RTH:constant={thousandths / 1000}")

    if setting.saving(sharper(high)) < budget:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if setting.saving(sharper(middle)) >= budget else (middle + 1, high)
    return sharper(high)


def _reasons(s: Schedule, budget: float, setting: Setting) -> list[str]:
    q_min, _ = s.limits(setting.steps)
    reasons = [f"budget: save at least {percent(budget)}; this saves {percent(setting.saving(s))}."]
    spec = str(s)
    if spec.startswith("delay"):
        reasons.append("critical periods: what the budget leaves over goes into q_max at the start of training.")
    if "constant=" in spec:
        reasons.append(
            "bitcycle: more than the paper's large group saves, so its rex curve is sharpened; untested there."
        )
    if q_min is not None and q_min > setting.q_min:
        reasons.append(f"bitcycle: q_min {q_min} is enough for so small a budget.")
    if q_min is not None and q_min < setting.q_min:
        reasons.append(
            f"warning: q_min {q_min} is below the {setting.q_min} bits above; the budget cannot be met otherwise. "
            "See by a range test (bc.range_test) that training works there."
        )
    if setting.saving(s) > budget + POINT:
        reasons.append(f"bitcycle: in {setting.steps} steps none is found that comes nearer to the budget.")
    return reasons
