"""Precision schedules: pure functions (step, total steps) -> bits. They need only numpy.

:func:`schedule` makes a schedule from a spec; the grammar of specs is in :mod:`bitcycle.schedules.spec`.

To extend the schedules, register a growth curve with :func:`profile`, or pass a function to :func:`schedule`. A new
kind of schedule is a subclass of :class:`Schedule` with the decorator :func:`register`.

>>> from bitcycle.schedules import profile, schedule
>>> @profile("quadratic")  # makes quadratic-repeated, quadratic-triangular-h, quadratic-fall, ...
... def quadratic(z):
...     return z**2
>>> s = schedule("quadratic-repeated", bits=(3, 8), cycles=2)
>>> [s(step, 1000) for step in (0, 250, 499)], str(s)
([3, 4, 8], 'quadratic-repeated:3-8:cycles=2')

>>> def full_then_6(step, total):  # any function (step, total) -> bits, with None for full precision
...     return None if step < total // 10 else 6
>>> s = schedule(full_then_6)
>>> [s(step, 1000) for step in (0, 100)], str(s), schedule("delay(0.5, call:full_then_6)").limits(1000)
([None, 6], 'call:full_then_6', (6, None))
"""

from __future__ import annotations

from bitcycle.schedules.base import Bits
from bitcycle.schedules.combinators import Deficit, Delay, Join, Moment, Window
from bitcycle.schedules.constant import Constant, Mixed
from bitcycle.schedules.cyclic import TEN, Cyclic
from bitcycle.schedules.interface import Group, Schedule
from bitcycle.schedules.matching import Control, match
from bitcycle.schedules.profiles import PROFILES, profile
from bitcycle.schedules.registry import register
from bitcycle.schedules.spec import schedule
from bitcycle.schedules.strengths import StrengthSchedule, strength

__all__ = [
    "PROFILES",
    "TEN",
    "Bits",
    "Constant",
    "Control",
    "Cyclic",
    "Deficit",
    "Delay",
    "Group",
    "Join",
    "Mixed",
    "Schedule",
    "StrengthSchedule",
    "deficit",
    "delay",
    "join",
    "match",
    "profile",
    "register",
    "schedule",
    "strength",
]


def deficit(windows: dict[tuple[Moment, Moment], Bits], rest: Schedule | str) -> Deficit:
    """Return a schedule that holds windows of training at given bits and follows another schedule elsewhere.

    Args:
        windows: ``{(start, stop): bits}``, with all moments in steps or all in fractions of training.
        rest: The schedule outside the windows, or its spec.

    Returns:
        The combined schedule.

    Example:
        >>> str(deficit({(0, 0.25): 3}, rest="static:8"))
        'deficit(3@0.0..0.25, static:8)'
    """
    return Deficit(tuple(Window(start, stop, bits) for (start, stop), bits in windows.items()), schedule(rest))


def delay(hold: Moment, then: Schedule | str) -> Delay:
    """Return a schedule that holds q_max for the first part of training and then follows a schedule over the rest.

    Args:
        hold: Where the schedule begins: a step, or a fraction of training.
        then: The schedule that follows, or its spec.

    Returns:
        The combined schedule.

    Example:
        >>> str(delay(0.25, "CR:3-8"))
        'delay(0.25, CR:3-8:cycles=8)'
    """
    return Delay(hold, schedule(then))


def join(*parts: Schedule | str, at: tuple[Moment, ...] | Moment) -> Join:
    """Return a schedule that follows several schedules one after the other.

    Args:
        *parts: Two or more schedules, or their specs.
        at: Where each part after the first begins: one moment, or a tuple of moments.

    Returns:
        The combined schedule.

    Example:
        >>> str(join("static:8", "LR:3-6:cycles=4", at=0.5))
        'join(static:8, 0.5, LR:3-6:cycles=4)'
    """
    boundaries = at if isinstance(at, tuple) else (at,)
    return Join(tuple(schedule(part) for part in parts), boundaries)
