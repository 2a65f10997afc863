"""Cyclic schedules: a profile, a number of cycles, and the direction in which each cycle follows the profile.

With ``k`` the cycle of a step and ``z`` the position in it, from integer arithmetic so that no partial cycle remains,

    k = (step * cycles) // total        z = ((step * cycles) % total) / total

a shape turns the profile ``g`` into ``f(k, z)``, and ``bits = rint(q_min + (q_max - q_min) * f)``, half to even.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.names import nearest
from bitcycle.schedules.base import BLOCK, MOST_BITS, MOST_CYCLES, Bits, Schedule, positive
from bitcycle.schedules.profiles import Profile

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class Rising(Enum):
    """Which cycles follow the profile upwards; the others fall."""

    EVERY = "every"
    ODD = "odd"
    NONE = "none"


class Mirror(Enum):
    """How a falling cycle reflects the profile g."""

    TIME = "time"
    """Horizontally: g(1 - z)."""
    HEIGHT = "height"
    """Vertically: 1 - g(z)."""


@dataclass(frozen=True)
class Shape:
    """The direction of each cycle."""

    rising: Rising
    mirror: Mirror

    def rises(self, cycles: Integers) -> Booleans:
        """Return which of the cycles rise."""
        if self.rising is Rising.ODD:
            return cycles % 2 == 1
        return np.full(cycles.shape, self.rising is Rising.EVERY)

    def __call__(self, g: Callable[[Floats], Floats], cycles: int, steps: Integers, total: int) -> Floats:
        """Return f at the given steps: the profile where cycles rise, its reflection where they fall."""
        cycle, remainder = np.divmod(steps * cycles, total)
        rising, z = self.rises(cycle), remainder / total
        if self.mirror is Mirror.TIME:
            return g(np.where(rising, z, 1 - z))
        up = g(z)
        return np.where(rising, up, 1 - up)


SHAPES: dict[str, Shape] = {
    "repeated": Shape(Rising.EVERY, Mirror.TIME),
    "triangular-h": Shape(Rising.ODD, Mirror.TIME),  # falls, rises, falls, ...
    "triangular-v": Shape(Rising.ODD, Mirror.HEIGHT),
    "fall-h": Shape(Rising.NONE, Mirror.TIME),  # one fall over all of training
    "fall-v": Shape(Rising.NONE, Mirror.HEIGHT),
}
"""The shapes by name: ``h`` reflects a fall horizontally (in time), ``v`` vertically (in height)."""

SHORT_SHAPES = {"rise": "repeated", "fall": "fall-h", "triangular": "triangular-h"}
"""Other names of a shape; ``rise`` is a single cycle of ``repeated``."""

TEN: dict[str, tuple[str, str]] = {
    "CR": ("cosine", "repeated"),
    "CT": ("cosine", "triangular-h"),
    "LR": ("linear", "repeated"),
    "LT": ("linear", "triangular-h"),
    "ER": ("exponential", "repeated"),
    "ETH": ("exponential", "triangular-h"),
    "ETV": ("exponential", "triangular-v"),
    "RR": ("rex", "repeated"),
    "RTH": ("rex", "triangular-h"),
    "RTV": ("rex", "triangular-v"),
}
"""The ten schedules of the paper: name -> (profile, shape). For cosine and linear the two reflections coincide."""

_NAME_OF = {parts: name for name, parts in TEN.items()}

_GUARD = 1e-10  # far above the errors of float arithmetic, relative to q_max; far below the change over one step


@dataclass(frozen=True)
class Cyclic(Schedule):
    """A profile between q_min and q_max, repeated or triangular, or a single fall.

    Args:
        profile: The growth curve.
        shape: A name of :data:`SHAPES`.
        q_min: Lowest width.
        q_max: Highest width.
        cycles: Number of cycles over the whole run: even for triangular shapes, 1 for a fall.

    Raises:
        ValueError: If the shape is unknown, q_min is above q_max, or the number of cycles does not fit the shape.

    Example:
        >>> dip = Cyclic(Profile.of("cosine"), "triangular-h", 3, 8, cycles=2)
        >>> [dip(step, 8) for step in range(8)], str(dip)
        ([8, 7, 6, 4, 3, 4, 6, 7], 'CT:3-8:cycles=2')
    """

    profile: Profile
    shape: str
    q_min: int
    q_max: int
    cycles: int = 8

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(f"unknown shape {self.shape!r}; {nearest(self.shape, SHAPES)}")
        object.__setattr__(self, "q_min", positive(self.q_min, "q_min", MOST_BITS))
        object.__setattr__(self, "q_max", positive(self.q_max, "q_max", MOST_BITS))
        object.__setattr__(self, "cycles", positive(self.cycles, "cycles", MOST_CYCLES))
        if self.q_min > self.q_max:
            raise ValueError(
                f"q_min {self.q_min} is above q_max {self.q_max}: give the smaller first, "
                f"as in bits=({self.q_max}, {self.q_min})"
            )
        rising = SHAPES[self.shape].rising
        if rising is Rising.ODD and self.cycles % 2:
            raise ValueError(
                f"a triangular schedule needs an even number of cycles, got {self.cycles}: it would end at q_min. "
                f"Use {self.cycles + 1} cycles, or "
                f"'{self.profile.name}-fall:{self.q_min}-{self.q_max}' for a single fall over the whole run"
            )
        if rising is Rising.NONE and self.cycles != 1:
            raise ValueError(f"a single fall has 1 cycle, got {self.cycles}; for several use a triangular schedule")

    def widths(self, steps: Integers, total: int) -> Integers:
        return np.rint(self._unrounded(steps, total)).astype(np.int64)

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self.q_min, self.q_max

    def count_widths(self, start: int, stop: int, total: int) -> Counter[int]:
        """Count the steps at each width; bisection finds the steps at which the width changes.

        Cycles are counted in blocks, so that the memory does not grow with their number. With ``above[i]`` the number
        of steps at more than ``q_min + i`` bits, the number of steps at a width is the difference of two neighbours.
        """
        changes = self.q_max - self.q_min
        if not self.profile.monotone or 2 * self.cycles * changes * total.bit_length() >= stop - start:
            return super().count_widths(start, stop, total)
        counts: Counter[int] = Counter()
        cycles_at_once = max(1, BLOCK // max(1, changes))
        while start < stop:
            next_cycle = start * self.cycles // total + cycles_at_once
            end = min(stop, -(-next_cycle * total // self.cycles))
            above = self._steps_above(start, end, total)
            if above is None:
                counts.update(super().count_widths(start, end, total))
            else:
                numbers = [more - fewer for more, fewer in pairwise([end - start, *above, 0])]
                counts.update({self.q_min + i: n for i, n in enumerate(numbers)})
            start = end
        return counts

    def _steps_above(self, start: int, stop: int, total: int) -> list[int] | None:
        """Count the steps at more than q_min, q_min + 1, ... q_max - 1 bits.

        Two widths meet at ``q + 1/2``. Within a cycle the unrounded values are monotone up to the errors of float
        arithmetic, so a step whose value is further from that boundary than a guard is on the side on which bisection
        puts it. The few steps within the guard are evaluated; the result is None if they are too many for that.
        """
        first, last = (step * self.cycles // total for step in (start, stop - 1))
        cycle, index = np.divmod(np.arange((last - first + 1) * (self.q_max - self.q_min)), self.q_max - self.q_min)
        cycle += first
        begin = np.maximum(-(-cycle * total // self.cycles), start)
        end = np.minimum(-(-(cycle + 1) * total // self.cycles), stop)
        rising = SHAPES[self.shape].rises(cycle)
        boundary = self.q_min + index + 0.5
        guard = _GUARD * self.q_max

        def first_position(level: Floats) -> Integers:
            """Return the first position of a cycle with at least the level, counted in the direction of growth."""
            low, high = np.zeros_like(begin), end - begin
            while (searching := low < high).any():
                middle = (low + high) // 2
                steps = np.where(rising, begin + middle, end - 1 - middle)
                reached = self._unrounded(steps, total) >= level
                high = np.where(searching & reached, middle, high)
                low = np.where(searching & ~reached, middle + 1, low)
            return low

        near, above = first_position(boundary - guard), first_position(boundary + guard)
        close = above - near
        if close.sum() > BLOCK:
            return None
        counts = np.bincount(index, end - begin - above).astype(np.int64)
        pair = np.repeat(np.arange(len(close)), close)
        position = near[pair] + np.arange(len(pair)) - np.repeat(np.cumsum(close) - close, close)
        steps = np.where(rising[pair], begin[pair] + position, end[pair] - 1 - position)
        np.add.at(counts, index[pair], self.widths(steps, total) > boundary[pair])
        return counts.tolist()

    def _unrounded(self, steps: Integers, total: int) -> Floats:
        f = SHAPES[self.shape](self.profile, self.cycles, steps, total)
        return self.q_min + (self.q_max - self.q_min) * f

    def __str__(self) -> str:
        name = _NAME_OF.get((self.profile.name, self.shape), f"{self.profile.name}-{self.shape}")
        spec = f"{name}:{self.q_min}-{self.q_max}"
        if SHAPES[self.shape].rising is not Rising.NONE:
            spec += f":cycles={self.cycles}"
        return spec + "".join(f":{key}={value!r}" for key, value in self.profile.changed().items())
