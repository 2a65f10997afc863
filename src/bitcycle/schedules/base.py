"""The base class of every schedule: a pure function (step, total steps) -> bits, and what follows from it."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.text import shown

Bits = int | None
"""The width of a grid; ``None`` is full precision."""

FULL = 0
"""How an array of widths writes full precision: no grid has zero bits."""

FULL_WIDTH = 32
"""The number of bits that full precision counts as in a cost."""

BLOCK = 1 << 16
"""Steps that are evaluated at once: the intermediate arrays of a block stay in the cache."""

# Limits. Whatever is within them is computed exactly and in bounded time; anything else is a ValueError.

MOST_BITS = 16
"""The largest width of a schedule: the largest that layers compute with."""

MOST_STEPS = 10**12
"""The largest number of steps: a thousand times the longest training runs there are."""

MOST_CYCLES = 10**6
"""The largest number of cycles. ``steps * cycles`` then fits into 64 bits."""

MOST_DEPTH = 50
"""How deep combinators may be nested."""

MOST_CHARACTERS = 10_000
"""The longest spec, as it is read and as ``str`` of a schedule writes it."""


class Group(StrEnum):
    """The size of a schedule's saving, in thirds of the largest possible saving (that of static q_min).

    The names say how much is SAVED, not how much is spent: schedules in the group ``large`` are the cheapest.
    """

    LARGE = "large"
    MEDIUM = "medium"
    SMALL = "small"


class Schedule(ABC):
    """Bits as a function of the step and the total number of steps.

    Schedules are immutable and compare and hash by content, and ``bc.schedule(str(s)) == s`` always holds. Schedules of
    your own are functions or registered profiles, see :mod:`bitcycle.schedules`; specs know them by name.

    The subclasses in this package implement :meth:`widths`, :meth:`limits` and ``__str__``; everything else follows.
    They may override :meth:`count_widths` if they can count steps without evaluating each of them.

    Example:
        >>> from bitcycle.schedules import schedule
        >>> s = schedule("CR", bits=(3, 8), cycles=2)
        >>> s(0, 1000), s(499, 1000), s(500, 1000)
        (3, 8, 3)
    """

    @abstractmethod
    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        """Return the widths at the given steps.

        Args:
            steps: Steps from 0 to ``total - 1``, in any order.
            total: Total number of training steps.

        Returns:
            A new array of the same shape; :data:`FULL` stands for full precision.
        """

    @abstractmethod
    def limits(self, total: int) -> tuple[Bits, Bits]:
        """Return ``(q_min, q_max)``, the range in which the schedule moves.

        Args:
            total: Total number of training steps.

        Returns:
            The lowest and the highest width; ``None`` (full precision) is higher than every width.
        """

    @abstractmethod
    def __str__(self) -> str:
        """Return the canonical spec of this schedule."""

    @property
    def depth(self) -> int:
        """How deep combinators are nested in this schedule; 0 if it is not a combinator."""
        return 0

    def __call__(self, step: int, total: int) -> Bits:
        """Return the bits at a step.

        Args:
            step: The step, counted from 0. Past the end, a schedule keeps the value of the last step.
            total: Total number of training steps.

        Returns:
            The width, or ``None`` for full precision.

        Raises:
            ValueError: If ``step`` is negative, ``total`` is below 1, or either is not an integer.
        """
        total = positive(total, "total")
        step = whole(step, "step")
        if step < 0:
            raise ValueError(f"step must be 0 or more, got {shown(step)}")
        width = int(self.widths(np.array([min(step, total - 1)], dtype=np.int64), total)[0])
        return None if width == FULL else width

    def over(self, total: int) -> NDArray[Any]:
        """Return the bits at every step of training.

        Args:
            total: Total number of training steps.

        Returns:
            An array of ``total`` integers, or of objects if some steps are in full precision (``None``).

        Example:
            >>> from bitcycle.schedules import schedule
            >>> schedule("linear-rise:3-8").over(6).tolist()
            [3, 4, 5, 6, 6, 7]
        """
        widths = self.all_widths(total)
        if (widths == FULL).any():
            bits = widths.astype(object)
            bits[widths == FULL] = None
            return bits
        return widths

    def all_widths(self, total: int) -> NDArray[np.int64]:
        """Return the widths at every step; :data:`FULL` stands for full precision."""
        total = positive(total, "total")
        widths = np.empty(total, dtype=np.int64)
        for steps in blocks_of_steps(0, total):
            widths[steps] = self.widths(steps, total)
        return widths

    def histogram(self, total: int, stop: int | None = None) -> dict[Bits, int]:
        """Count the steps at each width.

        Built-in schedules are counted from the steps at which their width changes, so a billion steps take
        milliseconds. Only a user's function, or a profile that is not declared monotone, is evaluated at every step.

        Args:
            total: Total number of training steps.
            stop: Count the steps before this one only; all steps by default.

        Returns:
            The exact number of steps at each width, full precision (``None``) first, then by ascending width.

        Raises:
            ValueError: If ``total`` is below 1, or ``stop`` is not from 1 to ``total``.

        Example:
            >>> from bitcycle.schedules import schedule
            >>> schedule("LR:3-8").histogram(10**9)
            {3: 100000000, 4: 200000008, 5: 199999992, 6: 200000008, 7: 199999992, 8: 100000000}
        """
        total = positive(total, "total")
        stop = total if stop is None else positive(stop, "stop")
        if stop > total:
            raise ValueError(f"stop must be at most total, {total}, got {stop}")
        counts = self.count_widths(0, stop, total)
        return {None if width == FULL else width: n for width, n in sorted(counts.items()) if n}

    def count_widths(self, start: int, stop: int, total: int) -> Counter[int]:
        """Count the steps from ``start`` up to, but not including, ``stop`` at each width.

        This implementation evaluates every step, block by block.

        Args:
            start: First step, 0 or more.
            stop: End of the steps, at most ``total``; none are counted if it is not above ``start``.
            total: Total number of training steps.

        Returns:
            The number of steps at each width; :data:`FULL` stands for full precision.
        """
        counts: Counter[int] = Counter()
        for steps in blocks_of_steps(start, stop):
            found, numbers = np.unique(self.widths(steps, total), return_counts=True)
            counts.update(dict(zip(found.tolist(), numbers.tolist(), strict=True)))
        return counts

    def mean_bits(self, total: int, first: float = 1.0) -> float:
        """Return the mean width over the first part of training; full precision counts as 32.

        Args:
            total: Total number of training steps.
            first: The part of training to average over, a fraction; all of it by default.

        Returns:
            The mean of the widths.

        Raises:
            ValueError: If ``first`` is not above 0 and at most 1.

        Example:
            >>> from bitcycle.schedules import schedule
            >>> s = schedule("RTH:3-8")
            >>> round(s.mean_bits(64_000), 2), round(s.mean_bits(64_000, first=0.1), 2)
            (3.81, 4.01)
        """
        if not 0 < first <= 1:
            raise ValueError(f"first must be a fraction of training above 0 and at most 1, got {first!r}")
        counts = self.histogram(total, max(1, round(first * positive(total, "total"))))
        return sum(width_of(bits) * n for bits, n in counts.items()) / sum(counts.values())

    def baseline(self, total: int) -> Bits:
        """Return the width of the static training that the saving of a model is compared with.

        Args:
            total: Total number of training steps.

        Returns:
            q_max; in a schedule with steps in full precision, its largest integer width, or ``None`` if it has none.

        Example:
            >>> from bitcycle.schedules import schedule
            >>> schedule("CR:3-8").baseline(100), schedule("deficit(full@0.0..0.5, static:4)").baseline(100)
            (8, 4)
        """
        q_max = self.limits(total)[1]
        if q_max is not None:
            return q_max
        return max((bits for bits in self.histogram(total) if bits is not None), default=None)

    def relative_cost(self, total: int, backward_bits: Bits | str = "max", against: int | None = None) -> float:
        """Return the cost of training relative to static training at the largest integer width, which is q_max.

        With ``q`` the bits at a step and ``b`` the gradient bits, the forward product of a multiply-accumulate costs
        ``q * q`` BitOps and each of its two gradient products ``b * q``:

            relative cost = mean over steps of (q^2 + 2 q b) / (q_max^2 + 2 q_max b)

        Args:
            total: Total number of training steps.
            backward_bits: Gradient bits; ``"max"`` is the largest integer width of the schedule, and full precision
                in steps that are, ``None`` is full precision.
            against: The width of the static training, if it is not the largest one of the schedule.

        Returns:
            The relative cost; 1 is the cost of the static training.
        """
        _, high, backward = self._widths_to_count(total, backward_bits)
        cost = sum(
            step_cost(width_of(bits), FULL_WIDTH if bits is None and backward_bits == "max" else backward) * n
            for bits, n in self.histogram(total).items()
        )
        return cost / (total * step_cost(high if against is None else positive(against, "against"), backward))

    def saving(self, total: int, backward_bits: Bits | str = "max", against: int | None = None) -> float:
        """Return the share of the cost of static training that the schedule saves: ``1 - relative_cost``.

        Args:
            total: Total number of training steps.
            backward_bits: Gradient bits, as in :meth:`relative_cost`.
            against: The width of the static training, if it is not the largest one of the schedule.

        Returns:
            The saving, at most 1; negative if the schedule costs more than the static training.

        Example:
            >>> from bitcycle.schedules import schedule
            >>> round(schedule("RTH:3-8").saving(64_000), 3)
            0.601
            >>> round(schedule("static:5").saving(64_000, backward_bits=8, against=8), 3)
            0.453
        """
        return 1 - self.relative_cost(total, backward_bits, against)

    def group(self, total: int, backward_bits: Bits | str = "max") -> Group | None:
        """Return which third of the possible saving the schedule reaches.

        The possible saving is that of static q_min. The group names the SAVING: ``large`` is the cheapest.

        Args:
            total: Total number of training steps.
            backward_bits: Gradient bits, as in :meth:`relative_cost`.

        Returns:
            The group, or ``None`` if the schedule saves nothing.

        Example:
            >>> from bitcycle.schedules import schedule
            >>> schedule("RTH:3-8").group(64_000) == "large"
            True
        """
        saving = self.saving(total, backward_bits)
        low, high, backward = self._widths_to_count(total, backward_bits)
        return group_of(saving, 1 - step_cost(low, backward) / step_cost(high, backward))

    def _widths_to_count(self, total: int, backward_bits: Bits | str) -> tuple[int, int, int]:
        """Return q_min, the largest integer width and the gradient bits as numbers."""
        low, high = width_of(self.limits(total)[0]), width_of(self.baseline(total))
        if backward_bits == "max":
            return low, high, high
        return low, high, width_of(checked_bits(backward_bits, "backward_bits", FULL_WIDTH))


def group_of(saving: float, possible: float) -> Group | None:
    """Return which third of the possible saving a saving is, or ``None`` if nothing is saved."""
    if saving <= 0 or possible <= 0:
        return None
    share = saving / possible
    return Group.LARGE if share > 2 / 3 else Group.MEDIUM if share > 1 / 3 else Group.SMALL


def blocks_of_steps(start: int, stop: int) -> Iterator[NDArray[np.int64]]:
    """Yield the steps from ``start`` up to, but not including, ``stop``, at most :data:`BLOCK` at once."""
    for first in range(start, stop, BLOCK):
        yield np.arange(first, min(first + BLOCK, stop), dtype=np.int64)


def array_width(bits: Bits) -> int:
    """Return bits as an array of widths writes them: full precision is :data:`FULL`."""
    return FULL if bits is None else bits


def width_of(bits: Bits) -> int:
    """Return bits as a number to count with: full precision is 32."""
    return FULL_WIDTH if bits is None else bits


def whole(value: object, what: str) -> int:
    """Return the value as an int, or raise a ValueError that names it if it is not an integer."""
    if isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{what} must be an integer, got {value}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"{what} must be an integer, got {shown(value)}") from None


def positive(value: object, what: str, most: int = MOST_STEPS) -> int:
    """Return the value as an int from 1 to ``most``, or raise a ValueError that names it."""
    number = whole(value, what)
    if number < 1:
        raise ValueError(f"{what} must be 1 or more, got {shown(number)}")
    if number > most:
        raise ValueError(f"{what} must be from 1 to {most}, got {shown(number)}")
    return number


def checked_bits(bits: object, what: str = "bits", most: int = MOST_BITS) -> Bits:
    """Return bits that a grid can have: an int from 1 to ``most``, or ``None`` for full precision."""
    return None if bits is None else positive(bits, what, most)


def check_extent(combined: Schedule) -> None:
    """Raise a ValueError if a combinator is nested too deep, or if its spec is longer than one that can be read."""
    if combined.depth > MOST_DEPTH:
        raise ValueError(f"a schedule may be nested {MOST_DEPTH} deep at most, got {combined.depth}")
    characters = len(str(combined))
    if characters > MOST_CHARACTERS:
        raise ValueError(f"a spec may have {MOST_CHARACTERS:,} characters at most, this schedule needs {characters:,}")


def step_cost(width: int, backward: int) -> int:
    """Return the BitOps of a multiply-accumulate in a step: ``q^2 + 2 q b``, with ``b`` the gradient bits."""
    return width * width + 2 * width * backward
