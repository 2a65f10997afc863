"""The schedules that do not move: one width, or full precision, for all of training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitcycle.schedules.base import FULL, Bits, Schedule, checked_bits


@dataclass(frozen=True)
class Constant(Schedule):
    """``static:8`` is eight bits throughout; ``full`` is full precision throughout.

    >>> Constant(8)(0, 100), Constant(None)(0, 100)
    (8, None)
    """

    bits: Bits

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", checked_bits(self.bits))

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        return np.full(steps.shape, FULL if self.bits is None else self.bits, dtype=np.int64)

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self.bits, self.bits

    def __str__(self) -> str:
        return "full" if self.bits is None else f"static:{self.bits}"
