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
from bitcycle.schedules.combinators import Deficit, Delay, Join, Window
from bitcycle.schedules.constant import Constant, Mixed
from bitcycle.schedules.cyclic import TEN, Cyclic
from bitcycle.schedules.grammar import register
from bitcycle.schedules.interface import Group, Schedule
from bitcycle.schedules.profiles import PROFILES, profile
from bitcycle.schedules.spec import schedule, strength

__all__ = [
    "PROFILES",
    "TEN",
    "Bits",
    "Constant",
    "Cyclic",
    "Deficit",
    "Delay",
    "Group",
    "Join",
    "Mixed",
    "Schedule",
    "Window",
    "profile",
    "register",
    "schedule",
    "strength",
]
