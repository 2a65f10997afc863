"""The base class of every schedule: a pure function (step, total steps) -> bits, and what follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bitcycle.schedules.base import (
    FULL_WIDTH,
    Bits,
    Integers,
    Quantity,
    Values,
    bits_of,
    blocks_of_steps,
    validate_integer,
    validate_steps,
)

if TYPE_CHECKING:
    from bitcycle.schedules.grammar import Node, Reader


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
    :meth:`names` and :meth:`parse`, and is registered by :func:`~bitcycle.schedules.grammar.register`.

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
            A new array of the same shape; full precision is :data:`~bitcycle.schedules.base.FULL_WIDTH`.
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
        """Return the names of this kind of schedule in specs; none if another kind reads its specs."""
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
        """What the schedule gives values of: bits, or strength."""
        return Quantity.BITS

    def __call__(self, step: int, total: int) -> Any:
        """Return the bits at a step; a schedule of strength returns the strength.

        Args:
            step: The step, counted from 0. Past the end, a schedule keeps the value of the last step.
            total: Total number of training steps.

        Returns:
            The width, or ``None`` for full precision; or the strength.

        Raises:
            ValueError: If ``step`` is negative, ``total`` is below 1, or either is not an integer.
        """
        total, step = validate_steps(total), validate_integer(step, "step", 0)
        return bits_of(self.values(np.array([min(step, total - 1)], dtype=np.int64), total)[0].item())

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
        widths = np.concatenate([self.values(steps, total) for steps in blocks_of_steps(validate_steps(total))])
        full = widths == FULL_WIDTH
        if not full.any():
            return widths
        bits = widths.astype(object)
        bits[full] = None
        return bits

    def histogram(self, total: int) -> dict[Bits, int]:
        """Count the steps at each width.

        Args:
            total: Total number of training steps.

        Returns:
            The exact number of steps at each width, by ascending width; full precision (``None``) is the last.

        Example:
            >>> from bitcycle.schedules import schedule
            >>> schedule("LR:3-8").histogram(10**6)
            {3: 100000, 4: 200008, 5: 199992, 6: 200008, 7: 199992, 8: 100000}
        """
        counts = np.zeros(FULL_WIDTH + 1, dtype=np.int64)
        for steps in blocks_of_steps(validate_steps(total)):
            counts += np.bincount(self.values(steps, total), minlength=FULL_WIDTH + 1)
        return {bits_of(width): int(counts[width]) for width in np.flatnonzero(counts).tolist()}

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
        stop = max(1, round(first * validate_steps(total)))
        return sum(int(self.values(steps, total).sum()) for steps in blocks_of_steps(stop)) / stop

    def saving(self, total: int, backward_bits: Bits | str = "max", against: int | None = None) -> float:
        """Return the share of the cost that the schedule saves against static training at the largest integer width.

        With ``q`` the bits at a step and ``g`` the gradient bits, the forward product of a multiply-accumulate costs
        ``q * q`` BitOps and each of its two gradient products ``g * q``:

            saving = 1 - mean over steps of (q^2 + 2 q g) / (q_max^2 + 2 q_max g)

        Args:
            total: Total number of training steps.
            backward_bits: Gradient bits; ``"max"`` is the largest integer width of the schedule, and full precision
                in steps that are, ``None`` is full precision.
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
        from bitcycle.schedules.operands import OperandSchedules  # which itself consists of schedules

        return OperandSchedules.of(self, backward_bits).saving(total, against)

    def group(self, total: int, backward_bits: Bits | str = "max") -> Group | None:
        """Return which third of the possible saving the schedule reaches.

        The possible saving is that of static q_min. The group names the SAVING: ``large`` is the cheapest.

        Args:
            total: Total number of training steps.
            backward_bits: Gradient bits, as in :meth:`saving`.

        Returns:
            The group, or ``None`` if the schedule saves nothing.

        Example:
            >>> from bitcycle.schedules import schedule
            >>> schedule("RTH:3-8").group(64_000) == "large"
            True
        """
        from bitcycle.schedules.operands import OperandSchedules

        return OperandSchedules.of(self, backward_bits).group(total)
