"""Any function ``(step, total) -> bits`` as a schedule."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.names import nearest
from bitcycle.schedules.base import FULL, Bits, Schedule, checked_bits

Function = Callable[[int, int], Bits]

FUNCTIONS: dict[str, Function] = {}
"""The user's functions by name: a spec names one, and never imports it."""


@dataclass(frozen=True)
class Custom(Schedule):
    """A user's function, named in specs as ``call:name``; equal names mean equal content.

    >>> def gentle(step, total):
    ...     return 8 if step < 10 else 4
    >>> s = Custom.of(gentle)
    >>> s(9, 100), s(10, 100), str(s)
    (8, 4, 'call:gentle')
    """

    name: str
    function: Function = field(repr=False, compare=False)

    @classmethod
    def of(cls, function: Function) -> Custom:
        """The schedule of a function, under its own name, or, if that is none or taken, with its content added."""
        name = getattr(function, "__name__", type(function).__name__)
        taken = FUNCTIONS.get(name)
        if not name.isidentifier() or isinstance(function, functools.partial) or _differ(taken, function):
            name = f"{name.strip('<>')}_{_digest(function)}"
        FUNCTIONS[name] = function
        return cls(name, function)

    @classmethod
    def named(cls, name: str) -> Custom:
        """The schedule of a function that is known already."""
        if name not in FUNCTIONS:
            hint = nearest(name, FUNCTIONS) if FUNCTIONS else "none is known yet"
            raise ValueError(f"no function {name!r} is known here: call bc.schedule({name}) once first; {hint}")
        return cls(name, FUNCTIONS[name])

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        return np.array([self._width(int(step), total) for step in steps], dtype=np.int64)

    def limits(self, total: int) -> tuple[Bits, Bits]:
        widths = self.all_widths(total)
        given = widths[widths != FULL]
        if not given.size:
            return None, None
        return int(given.min()), int(given.max()) if given.size == widths.size else None

    def _width(self, step: int, total: int) -> int:
        bits = checked_bits(self.function(step, total), f"what {self.name} gives at step {step} of {total}")
        return FULL if bits is None else bits

    def __str__(self) -> str:
        return f"call:{self.name}"


def _differ(one: Function | None, other: Function) -> bool:
    """Whether two functions do different things; one that was defined again, as notebooks do, is the same."""
    return one is not None and one is not other and _digest(one) != _digest(other)


def _digest(function: object) -> str:
    return hashlib.sha256(repr(_content(function)).encode()).hexdigest()[:12]


def _content(value: object) -> object:
    """What a function does, as far as its code, its defaults and what it closes over tell."""
    if isinstance(value, CodeType):
        return (value.co_code, value.co_names, tuple(_content(constant) for constant in value.co_consts))
    if isinstance(value, functools.partial):
        return (_content(value.func), value.args, sorted(value.keywords.items()))
    code = getattr(value, "__code__", None)
    if code is None:
        return (type(value).__qualname__, sorted(vars(value).items())) if hasattr(value, "__dict__") else value
    cells = tuple(_content(cell.cell_contents) for cell in getattr(value, "__closure__", None) or ())
    return (_content(code), getattr(value, "__defaults__", None), cells)
