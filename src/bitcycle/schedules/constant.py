"""Schedules that do not move: one width, or full precision, for all of training."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitcycle.schedules.base import FULL, Bits, Schedule, checked_bits


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
        return np.full(steps.shape, self._width, dtype=np.int64)

    def count_widths(self, start: int, stop: int, total: int) -> Counter[int]:
        return Counter({self._width: max(0, stop - start)})

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self.bits, self.bits

    @property
    def _width(self) -> int:
        return FULL if self.bits is None else self.bits

    def __str__(self) -> str:
        return "full" if self.bits is None else f"static:{self.bits}"
