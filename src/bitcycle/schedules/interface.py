"""The base class of every schedule: a pure function (step, total steps) -> bits, and what follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bitcycle.schedules.base import (
    FULL,
    MAX_BITS,
    MAX_CHARACTERS,
    MAX_DEPTH,
    Bits,
    Integers,
    Quantity,
    Values,
    blocks_of_steps,
    validate_positive,
    validate_step,
    width_of,
)

if TYPE_CHECKING:
    from bitcycle.schedules.grammar import Node
    from bitcycle.schedules.operands import OperandSchedules
    from bitcycle.schedules.registry import Reader


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

    A new kind of schedule is a frozen dataclass that implements :meth:`values`, :meth:`limits`, ``__str__``,
    :meth:`names` and :meth:`parse`, and is registered by :func:`~bitcycle.schedules.registry.register`. It may override
    :meth:`count_widths` if it can count steps without evaluating each of them.

    Example:
        >>> from bitcycle.schedules import schedule
        >>> s = schedule("CR", bits=(3, 8), cycles=2)
        >>> s(0, 1000), s(499, 1000), s(500, 1000)
        (3, 8, 3)
    """

    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity.BITS,)
    """What this kind of schedule can give values of."""

    is_combinator: ClassVar[bool] = False
    """Whether specs write it as a call, ``name(arguments)``, and not as ``name:argument``."""

    is_static: ClassVar[bool] = False
    """Whether the precision is the same throughout: one width, full precision, or a constant mixture of two."""

    @abstractmethod
    def values(self, steps: Integers, total: int) -> Values:
        """Return the values at the given steps.

        Args:
            steps: Steps from 0 to ``total - 1``, in any order.
            total: Total number of training steps.

        Returns:
            A new array of the same shape; :data:`~bitcycle.schedules.base.FULL` stands for full precision.
        """

    @abstractmethod
    def limits(self, total: int) -> tuple[Bits, Bits]:
        """Return ``(q_min, q_max)``, the range of the widths.

        Args:
            total: Total number of training steps.

        Returns:
            The lowest and the highest width; ``None`` (full precision) is higher than every width.
        """

    @abstractmethod
    def __str__(self) -> str:
        """Return the canonical spec of this schedule."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of this kind of schedule in specs; none if it has no specs of its own."""
        return ()

    @classmethod
    def reads(cls, name: str, quantity: Quantity) -> bool:
        """Return whether a name in specs of a quantity belongs to this kind of schedule."""
        return name in cls.names()

    @classmethod
    def parse(cls, node: Node, reader: Reader) -> Schedule:
        """Return the schedule of a spec that begins with one of the :meth:`names`."""
        raise NotImplementedError(f"{cls.__name__} has no specs of its own")

    @property
    def quantity(self) -> Quantity:
        """What the schedule gives values of. Only the curve inside a strength has another one than bits."""
        return Quantity.BITS

    @property
    def components(self) -> tuple[Schedule, ...]:
        """The schedules that this one combines."""
        return ()

    @property
    def depth(self) -> int:
        """How deep combinators are nested in this schedule; 0 if it is not a combinator."""
        return 1 + max(each.depth for each in self.components) if self.components else 0

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
        bits: Bits = self.value_at(step, total)
        return bits

    def value_at(self, step: int, total: int) -> Any:
        """Return the value at a step, whatever the quantity is."""
        total, step = validate_positive(total, "total"), validate_step(step)
        return self.quantity.decode(self.values(np.array([min(step, total - 1)], dtype=np.int64), total)[0].item())

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
        total = validate_positive(total, "total")
        widths = np.empty(total, dtype=np.int64)
        for steps in blocks_of_steps(0, total):
            widths[steps] = self.values(steps, total)
        if not (widths == FULL).any():
            return widths
        bits = widths.astype(object)
        bits[widths == FULL] = None
        return bits

    def histogram(self, total: int, stop: int | None = None) -> dict[Bits, int]:
        """Count the steps at each width.

        Args:
            total: Total number of training steps.
            stop: Count the steps before this one only; all steps by default.

        Returns:
            The exact number of steps at each width, full precision (``None``) first, then by ascending width.

        Raises:
            ValueError: If ``total`` is below 1, or ``stop`` is not from 1 to ``total``.

        Example:
            >>> from bitcycle.schedules import schedule
            >>> schedule("LR:3-8").histogram(10**6)
            {3: 100000, 4: 200008, 5: 199992, 6: 200008, 7: 199992, 8: 100000}
        """
        total = validate_positive(total, "total")
        stop = total if stop is None else validate_positive(stop, "stop")
        if stop > total:
            raise ValueError(f"stop must be at most total, {total}, got {stop}")
        counts = self.count_widths(0, stop, total)
        return {self.quantity.decode(width): n for width, n in sorted(counts.items()) if n}

    def count_widths(self, start: int, stop: int, total: int) -> Counter[int]:
        """Count the steps from ``start`` up to, but not including, ``stop`` at each width.

        This implementation evaluates every step, block by block.

        Args:
            start: First step, 0 or more.
            stop: End of the steps, at most ``total``; none are counted if it is not above ``start``.
            total: Total number of training steps.

        Returns:
            The number of steps at each width; :data:`~bitcycle.schedules.base.FULL` stands for full precision.
        """
        counts = np.zeros(MAX_BITS + 1, dtype=np.int64)
        for steps in blocks_of_steps(start, stop):
            counts += np.bincount(self.values(steps, total), minlength=MAX_BITS + 1)
        return Counter({width: n for width, n in enumerate(counts.tolist()) if n})

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
        counts = self.histogram(total, max(1, round(first * validate_positive(total, "total"))))
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
        return self._for_both_operands(backward_bits).relative_cost(total, against)

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
        return self._for_both_operands(backward_bits).group(total)

    def _for_both_operands(self, backward_bits: Bits | str) -> OperandSchedules:
        from bitcycle.schedules.operands import OperandSchedules  # which itself consists of schedules

        return OperandSchedules.of(self, backward_bits)


def validate_extent(combined: Schedule) -> None:
    """Raise a ValueError if a combinator is nested too deep, or if its spec is longer than one that can be read."""
    if combined.depth > MAX_DEPTH:
        raise ValueError(f"a schedule may be nested {MAX_DEPTH} deep at most, got {combined.depth}")
    characters = len(str(combined))
    if characters > MAX_CHARACTERS:
        raise ValueError(f"a spec may have {MAX_CHARACTERS:,} characters at most, this schedule needs {characters:,}")
