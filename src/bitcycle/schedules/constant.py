"""Schedules without a shape: one width, full precision, or two neighbouring widths in a constant mixture."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.text import shown
from bitcycle.schedules.base import MOST_BITS, Bits, Schedule, array_width, checked_bits


@dataclass(frozen=True)
class Constant(Schedule):
    """One width for all of training: ``static:8`` is eight bits, ``full`` is full precision.

    Args:
        bits: The width, or ``None`` for full precision.

    Example:
        >>> Constant(8)(0, 100), Constant(None)(0, 100)
        (8, None)
    """

    bits: Bits

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", checked_bits(self.bits))

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        return np.full(steps.shape, array_width(self.bits), dtype=np.int64)

    def count_widths(self, start: int, stop: int, total: int) -> Counter[int]:
        return Counter({array_width(self.bits): max(0, stop - start)})

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self.bits, self.bits

    def __str__(self) -> str:
        return "full" if self.bits is None else f"static:{self.bits}"


DECIMALS = 6
"""Decimals of a mean width. Steps times millionths of a bit fit into 64 bits."""

_PARTS = 10**DECIMALS


@dataclass(frozen=True)
class Mixed(Schedule):
    """Two neighbouring widths in turn, spread evenly over training so that their mean is a given number of bits.

    With ``low`` the integer part of the bits and ``s`` the rest, a step has ``low + 1`` bits where ``t s + 1/2``
    reaches the next integer, as in Bresenham's line:

        bits(t) = low + floor((t + 1) s + 1/2) - floor(t s + 1/2)

    The first ``t`` steps have ``rint(t s)`` steps at the higher width, whatever ``t`` is. It is a static width between
    two integers, and thus the control at equal cost for a schedule: the same mean precision, but no cycles.

    Args:
        bits: The mean width, not an integer; it is rounded to six decimals.

    Raises:
        ValueError: If the bits are not a number between 1 and 16, or are an integer.

    Example:
        >>> s = Mixed(5.25)
        >>> [s(step, 8) for step in range(8)], s.mean_bits(8), str(s)
        ([5, 6, 5, 5, 5, 6, 5, 5], 5.25, 'static:5.25')
    """

    bits: float

    def __post_init__(self) -> None:
        if isinstance(self.bits, bool) or not isinstance(self.bits, (int, float)) or not 1 <= self.bits <= MOST_BITS:
            raise ValueError(f"a mean width must be a number from 1 to {MOST_BITS}, got {shown(self.bits)}")
        rounded = round(float(self.bits), DECIMALS)
        if rounded == int(rounded):
            raise ValueError(
                f"a mean width must lie between two integers, got {shown(self.bits)}: use static:{int(rounded)}"
            )
        object.__setattr__(self, "bits", rounded)

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        return self._low + self._high_before(steps + 1) - self._high_before(steps)

    def count_widths(self, start: int, stop: int, total: int) -> Counter[int]:
        if stop <= start:
            return Counter()
        before, after = self._high_before(np.array([start, stop], dtype=np.int64)).tolist()
        return Counter({self._low: stop - start - (after - before), self._low + 1: after - before})

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self._low, self._low + 1

    @property
    def _low(self) -> int:
        return math.floor(self.bits)

    def _high_before(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of steps at the higher width among the first ``steps``."""
        parts = round((self.bits - self._low) * _PARTS)
        return (steps * parts + _PARTS // 2) // _PARTS

    def __str__(self) -> str:
        return f"static:{self.bits:.{DECIMALS}f}".rstrip("0")
