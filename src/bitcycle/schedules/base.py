"""The base of every schedule: a pure function (step, total steps) -> bits, and what follows from it."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = int | None
"""The width of an integer grid; ``None`` is full precision."""

FULL = 0
"""How an array of widths writes full precision: no grid has zero bits."""

FULL_WIDTH = 32
"""What full precision counts as in a cost."""

_CHUNK = 1 << 16  # steps evaluated at once: the intermediates of a chunk stay in the cache


class Schedule(ABC):
    """Bits as a function of the step and of the total number of steps.

    Schedules are immutable, compare and hash by content, and ``bc.schedule(str(s)) == s`` holds for each of them.
    A subclass gives :meth:`widths`, :meth:`limits` and ``__str__``; everything else follows.

    >>> from bitcycle.schedules import schedule
    >>> s = schedule("CR", bits=(3, 8), cycles=2)
    >>> s(0, 1000), s(499, 1000), s(500, 1000)
    (3, 8, 3)
    """

    @abstractmethod
    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        """Widths at the given steps, all of them inside training; :data:`FULL` stands for full precision."""

    @abstractmethod
    def limits(self, total: int) -> tuple[Bits, Bits]:
        """``(q_min, q_max)``, the span the schedule moves in; ``None`` (full precision) is the widest of all."""

    @abstractmethod
    def __str__(self) -> str:
        """The spec of this schedule."""

    def __call__(self, step: int, total: int) -> Bits:
        """Bits at a step. Past the end a schedule stays at the value of the last step."""
        total = positive(total, "the total number of steps")
        step = whole(step, "a step")
        if step < 0:
            raise ValueError(f"step {step} lies before training: steps count from 0 to {total - 1}")
        width = int(self.widths(np.array([min(step, total - 1)], dtype=np.int64), total)[0])
        return None if width == FULL else width

    def over(self, total: int) -> NDArray[Any]:
        """Bits at every step of a training: integers, or objects if some steps are full precision (``None``)."""
        widths = self.all_widths(total)
        if (widths == FULL).any():
            bits = widths.astype(object)
            bits[widths == FULL] = None
            return bits
        return widths

    def mean_bits(self, total: int, first: float = 1.0) -> float:
        """Mean width over the first part of training; full precision counts as 32."""
        if not 0 < first <= 1:
            raise ValueError(f"the part of training to average over is a fraction above 0 and up to 1, not {first!r}")
        counts = _counts(self.all_widths(total)[: max(1, round(first * total))])
        return sum(width * n for width, n in counts.items()) / sum(counts.values())

    def relative_cost(self, total: int, backward_bits: Bits | str = "max") -> float:
        """Cost of training relative to static q_max: the mean of ``q^2 + 2 q b`` over that of q_max.

        The forward product is ``q x q`` bits, each of the two gradient products ``b x q``. The gradient bits ``b``
        are q_max unless given; ``None`` is full precision.
        """
        _, high, backward = self._widths_to_count(total, backward_bits)
        cost = sum(_step_cost(width, backward) * n for width, n in _counts(self.all_widths(total)).items())
        return cost / (total * _step_cost(high, backward))

    def saving(self, total: int, backward_bits: Bits | str = "max") -> float:
        """The share of static q_max's cost that the schedule saves, from 0 to 1."""
        return 1 - self.relative_cost(total, backward_bits)

    def group(self, total: int, backward_bits: Bits | str = "max") -> str | None:
        """``large``, ``medium`` or ``small``: which third of the possible saving the schedule reaches.

        The possible saving is that of static q_min. ``None`` where nothing is or could be saved.
        """
        saving = self.saving(total, backward_bits)
        low, high, backward = self._widths_to_count(total, backward_bits)
        possible = 1 - _step_cost(low, backward) / _step_cost(high, backward)
        if saving <= 0 or possible <= 0:
            return None
        share = saving / possible
        return "large" if share > 2 / 3 else "medium" if share > 1 / 3 else "small"

    def _widths_to_count(self, total: int, backward_bits: Bits | str) -> tuple[int, int, int]:
        """q_min, q_max and the gradient bits as numbers."""
        low, high = (width_of(bits) for bits in self.limits(total))
        backward = high if backward_bits == "max" else width_of(checked_bits(backward_bits, "backward_bits"))
        return low, high, backward

    def all_widths(self, total: int) -> NDArray[np.int64]:
        """Widths at every step; :data:`FULL` stands for full precision."""
        total = positive(total, "the total number of steps")
        widths = np.empty(total, dtype=np.int64)
        for start in range(0, total, _CHUNK):
            steps = np.arange(start, min(start + _CHUNK, total), dtype=np.int64)
            widths[start : start + _CHUNK] = self.widths(steps, total)
        return widths


def width_of(bits: Bits) -> int:
    """Bits as a number to count with: full precision is 32."""
    return FULL_WIDTH if bits is None else bits


def whole(value: object, what: str) -> int:
    """The value as an int, or a ValueError that says it is none."""
    if isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{what} is a whole number, not {value!r}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"{what} is a whole number, not {value!r}") from None


def positive(value: object, what: str) -> int:
    """The value as an int of 1 or more, or a ValueError."""
    number = whole(value, what)
    if number < 1:
        raise ValueError(f"{what} is 1 or more, not {number}")
    return number


def checked_bits(bits: object, what: str = "a width") -> Bits:
    """Bits that a grid can have: an int of 1 or more, or ``None`` for full precision."""
    return None if bits is None else positive(bits, what)


def _step_cost(width: int, backward: int) -> int:
    return width * width + 2 * width * backward


def _counts(widths: NDArray[np.int64]) -> dict[int, int]:
    """How many steps there are of each width, as exact integers."""
    return {width_of(w or None): int(n) for w, n in enumerate(np.bincount(widths)) if n}
