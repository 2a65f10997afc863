"""Precision schedules: pure functions (step, total steps) -> bits. Needs numpy alone; :mod:`.spec` has the grammar."""

from __future__ import annotations

from bitcycle.schedules.base import Bits, Schedule
from bitcycle.schedules.combinators import Deficit, Delay, Join, Moment, Window
from bitcycle.schedules.constant import Constant
from bitcycle.schedules.custom import Custom
from bitcycle.schedules.cyclic import SHAPES, TEN, Cyclic
from bitcycle.schedules.profiles import PROFILES, Profile, profile
from bitcycle.schedules.spec import DEFAULT_CYCLES, complete, schedule

__all__ = [
    "DEFAULT_CYCLES",
    "PROFILES",
    "SHAPES",
    "TEN",
    "Bits",
    "Constant",
    "Custom",
    "Cyclic",
    "Deficit",
    "Delay",
    "Join",
    "Moment",
    "Profile",
    "Schedule",
    "Window",
    "complete",
    "deficit",
    "delay",
    "join",
    "profile",
    "schedule",
]


def deficit(windows: dict[tuple[Moment, Moment], Bits], rest: Schedule | str) -> Deficit:
    """Hold windows of training at given bits, the rest on a schedule.

    >>> str(deficit({(0, 0.25): 3}, rest="static:8"))
    'deficit(3@0.0..0.25, static:8)'
    """
    return Deficit(tuple(Window(start, stop, bits) for (start, stop), bits in windows.items()), schedule(rest))


def delay(hold: Moment, then: Schedule | str) -> Delay:
    """Hold q_max for a part of training, then follow a schedule over the remainder.

    >>> str(delay(0.25, "CR:3-8"))
    'delay(0.25, CR:3-8:cycles=8)'
    """
    return Delay(hold, schedule(then))


def join(*parts: Schedule | str, at: tuple[Moment, ...] | Moment) -> Join:
    """Schedules one after the other; ``at`` says where each but the first begins.

    >>> str(join("static:8", "LR:3-6:cycles=4", at=0.5))
    'join(static:8, 0.5, LR:3-6:cycles=4)'
    """
    boundaries = at if isinstance(at, tuple) else (at,)
    return Join(tuple(schedule(part) for part in parts), boundaries)
