"""Any function ``(step, total) -> bits`` as a schedule."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bitcycle.schedules.base import FULL, Bits, Schedule, checked_bits
from bitcycle.schedules.names import nearest

Function = Callable[[int, int], Bits]

FUNCTIONS: dict[str, Function] = {}
"""The user's functions by name: a spec names one, and never imports it."""


@dataclass(frozen=True)
class Custom(Schedule):
    """A user's function, named in specs as ``call:name``.

    >>> def warm(step, total):
    ...     return 8 if step < 10 else 4
    >>> s = Custom.of(warm)
    >>> s(9, 100), s(10, 100), str(s)
    (8, 4, 'call:warm')
    """

    name: str
    function: Function = field(repr=False)

    @classmethod
    def of(cls, function: Function) -> Custom:
        """The schedule of a function, under its own name; the latest function of a name is the one a spec means."""
        name = _name(function)
        FUNCTIONS[name] = function
        return cls(name, function)

    @classmethod
    def named(cls, name: str) -> Custom:
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


def _name(function: Function) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    if name != "<lambda>" or code is None:
        return name
    # A lambda has no name of its own: its content gives one, so that two of them do not meet under one spec.
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    content = repr((code.co_code, code.co_consts, code.co_names, cells, function.__defaults__))
    return f"lambda_{hashlib.sha256(content.encode()).hexdigest()[:12]}"
