"""The precision of a training: the bits of weights, activations and gradients, and the strength; and what it costs.

The defaults where a schedule contains full precision: ``backward_bits="max"`` is the largest integer width while the
forward pass is on bits, and full where both its operands are; evaluation is at the largest width of each operand, and
full precision is the largest; costs are compared with static training at the largest integer width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, SupportsIndex

import numpy as np

from bitcycle._support.text import short_repr
from bitcycle.schedules.base import (
    FULL,
    FULL_WIDTH,
    Bits,
    Integers,
    blocks_of_steps,
    validate_bits,
    validate_positive,
    width_of,
)
from bitcycle.schedules.constant import Constant
from bitcycle.schedules.custom import Function, StrengthFunction
from bitcycle.schedules.interface import Group, Schedule
from bitcycle.schedules.spec import schedule as as_schedule
from bitcycle.schedules.strengths import FULL_STRENGTH, StrengthSchedule
from bitcycle.schedules.strengths import strength as as_strength

MAX = "max"
AnySchedule = Schedule | str | Function
BackwardBits = AnySchedule | int | None
"""Bits of gradients: ``"max"``, an integer, ``None`` for full precision, a schedule or its spec."""
AnyStrength = StrengthSchedule | StrengthFunction | str | float

Widths = tuple[int, int, int]
"""The widths of weights, activations and gradients as numbers to count with: full precision is 32."""


def step_cost(weights: int, activations: int, gradients: int) -> int:
    """Return the BitOps of a multiply-accumulate in a training step.

    The forward product multiplies weights and activations, the two gradient products multiply gradients with each:
    ``w a + g w + g a``.

    >>> step_cost(4, 8, 6)
    104
    """
    return weights * activations + gradients * weights + gradients * activations


class StepBits(NamedTuple):
    """The bits of one training step; ``None`` is full precision."""

    weights: Bits
    activations: Bits
    backward: Bits
    strength: float = 1.0

    def counted(self) -> Widths:
        """Return the widths of weights, activations and gradients as numbers to count with.

        Operands of a strength below 1 are floating-point numbers: they count as full precision.
        """
        if self.strength < 1:
            return FULL_WIDTH, FULL_WIDTH, width_of(self.backward)
        return width_of(self.weights), width_of(self.activations), width_of(self.backward)


@dataclass(frozen=True)
class OperandSchedules:
    """The schedules of weights, activations, gradients and strength.

    Args:
        weights: The schedule of weights.
        activations: The schedule of activations.
        backward: The schedule of gradients; ``None`` stands for ``"max"``, see the module.
        strength: The schedule of strength.

    Example:
        >>> schedules = OperandSchedules.of("join(static:4, 0.5, full)")
        >>> schedules.at(0, 10), schedules.at(9, 10)
        (StepBits(weights=4, activations=4, backward=4, strength=1.0), StepBits(weights=None, activations=None, \
backward=None, strength=1.0))
    """

    weights: Schedule
    activations: Schedule
    backward: Schedule | None = None
    strength: StrengthSchedule = FULL_STRENGTH

    @classmethod
    def of(
        cls,
        schedule: AnySchedule | None,
        backward_bits: BackwardBits = MAX,
        weights: AnySchedule | int | None = None,
        activations: AnySchedule | int | None = None,
        strength: AnyStrength | None = None,
        max_backward: int = FULL_WIDTH,
    ) -> OperandSchedules:
        """Return the schedules that arguments describe, as :class:`bitcycle.PrecisionScheduler` takes them.

        Args:
            schedule: The schedule of both operands; ``None`` if each has its own.
            backward_bits: Bits of gradients.
            weights: The schedule of weights in place of ``schedule``, or a width.
            activations: The schedule of activations in place of ``schedule``, or a width.
            strength: The strength; full by default.
            max_backward: The largest fixed width of gradients.

        Raises:
            ValueError: An argument is invalid.
        """
        if schedule is None and (weights is None or activations is None):
            raise ValueError("give a schedule, or a schedule for weights and one for activations")
        both = None if schedule is None else as_schedule(schedule)
        w, a = (_operand(own, both, name) for own, name in ((weights, "weights"), (activations, "activations")))
        return cls(w, a, _backward(backward_bits, max_backward), as_strength(strength))

    @property
    def is_plain(self) -> bool:
        """Whether one schedule sets both operands at full strength."""
        return self.weights == self.activations and self.strength == FULL_STRENGTH

    @property
    def label(self) -> str:
        """The schedules of the operands, such as ``W static:4 A static:8``."""
        forward = str(self.weights) if self.weights == self.activations else f"W {self.weights} A {self.activations}"
        return forward if self.strength == FULL_STRENGTH else f"{forward} strength {self.strength}"

    def at(self, step: int, total: int) -> StepBits:
        """Return the bits of a step. Past the end they keep their last values."""
        weights = self.weights(step, total)
        activations = weights if self.activations is self.weights else self.activations(step, total)
        strength = 1.0 if self.strength is FULL_STRENGTH else self.strength(step, total)
        return self._with_backward(weights, activations, strength, step, total)

    def _with_backward(self, weights: Bits, activations: Bits, strength: float, step: int, total: int) -> StepBits:
        if self.backward is not None:
            return StepBits(weights, activations, self.backward(step, total), strength)
        is_full = strength == 0 or (weights is None and activations is None)
        return StepBits(weights, activations, None if is_full else self.largest(total), strength)

    def widths(self, steps: Integers, total: int) -> tuple[Integers, Integers, Integers]:
        """Return the widths of weights, activations and gradients at the given steps; full precision is 32."""
        w, a = (_width_of_each(own.values(steps, total)) for own in (self.weights, self.activations))
        if self.backward is not None:
            return w, a, _width_of_each(self.backward.values(steps, total))
        is_full = (self.strength.values(steps, total) == 0) | ((w == FULL_WIDTH) & (a == FULL_WIDTH))
        return w, a, np.where(is_full, FULL_WIDTH, width_of(self.largest(total)))

    def evaluation(self, total: int) -> tuple[Bits, Bits]:
        """Return the largest widths of weights and of activations; full precision is the largest."""
        return self.weights.limits(total)[1], self.activations.limits(total)[1]

    def check(self, total: int, check: Callable[[Schedule, int, str], None]) -> None:
        """Check each schedule of bits by a function of it, the total number of steps, and its name for a message."""
        check(self.weights, total, "weights")
        check(self.activations, total, "activations")
        if self.backward is not None:
            check(self.backward, total, "backward_bits")

    def largest(self, total: int) -> Bits:
        """Return the largest integer width of both operands, or ``None`` if they have none."""
        return _largest(self.weights, self.activations, total)

    def backward_setting(self, total: int) -> Bits | str:
        """Return the bits of gradients as a checkpoint records them: a width if they are fixed, else a spec."""
        if self.backward is None:
            varies = self.strength != FULL_STRENGTH or None in self.evaluation(total)
            return MAX if varies and self.largest(total) is not None else self.largest(total)
        return self.backward.bits if isinstance(self.backward, Constant) else str(self.backward)

    def mean_strength(self, total: int) -> float:
        """Return the mean strength over training."""
        if self.strength.is_constant:
            return self.strength(0, total)
        return sum(float(self.strength.values(steps, total).sum()) for steps in blocks_of_steps(0, total)) / total

    def histogram(self, total: int) -> dict[Widths, int]:
        """Count the steps at each combination of widths of weights, activations and gradients."""
        total = validate_positive(total, "steps")
        counts: Counter[Widths] = Counter()
        gradients_are_fixed = self.backward is None or isinstance(self.backward, Constant)
        if self.weights == self.activations and self.strength.is_constant and gradients_are_fixed:
            strength = self.strength(0, total)
            for bits, n in self.weights.histogram(total).items():
                counts[self._with_backward(bits, bits, strength, 0, total).counted()] += n
            return dict(counts)
        base = FULL_WIDTH + 1
        numbers = np.zeros(base**3, dtype=np.int64)
        for steps in blocks_of_steps(0, total):
            w, a, g = self.widths(steps, total)
            w, a = (np.where(self.strength.values(steps, total) < 1, FULL_WIDTH, each) for each in (w, a))
            numbers += np.bincount((w * base + a) * base + g, minlength=base**3)
        for code in np.flatnonzero(numbers).tolist():
            counts[code // base**2, code // base % base, code % base] = int(numbers[code])
        return dict(counts)

    def cost(self, total: int) -> int:
        """Return the BitOps of a multiply-accumulate over the whole training; see :func:`step_cost`."""
        return sum(step_cost(*widths) * n for widths, n in self.histogram(total).items())

    def baseline(self, total: int, against: Schedule | None = None) -> OperandSchedules:
        """Return the static training that costs are compared with: at the largest integer width, at full strength.

        Its gradients have fixed bits if they are given, else that width; of a schedule, the largest integer width.

        Args:
            total: Total number of training steps.
            against: Another schedule of the operands, with the same gradients; in full precision they are full too.
        """
        largest = Constant(self.largest(total))
        gradients = largest if self.backward is None else Constant(self.backward.baseline(total))
        if against is None:
            return OperandSchedules(largest, largest, gradients)
        return OperandSchedules(against, against, against if against == Constant(None) else gradients)

    def relative_cost(self, total: int, against: int | None = None) -> float:
        """Return the cost relative to that of the :meth:`baseline`, or of static training at a given width."""
        return self.cost(total) / self.baseline(total, None if against is None else Constant(against)).cost(total)

    def saving(self, total: int) -> float:
        """Return the share of the cost of the :meth:`baseline` that is saved.

        Negative if steps in full precision cost more than others save.

        >>> OperandSchedules.of("static:4", 6, activations=8).saving(10) == 1 - (32 + 24 + 48) / (64 + 48 + 48)
        True
        """
        return 1 - self.relative_cost(total)

    def group(self, total: int) -> Group | None:
        """Return which third of the possible saving is reached: that of static training at the smallest width.

        ``None`` if nothing is saved.
        """
        lowest = Constant(min((own.limits(total)[0] for own in (self.weights, self.activations)), key=width_of))
        gradients = self.baseline(total).backward
        saving, possible = self.saving(total), OperandSchedules(lowest, lowest, gradients)
        most = 1 - possible.cost(total) / self.baseline(total).cost(total)
        if saving <= 0 or most <= 0:
            return None
        share = saving / most
        return Group.LARGE if share > 2 / 3 else Group.MEDIUM if share > 1 / 3 else Group.SMALL


def _operand(own: AnySchedule | int | None, both: Schedule | None, name: str) -> Schedule:
    if own is None:
        assert both is not None
        return both
    return Constant(validate_bits(own, name)) if isinstance(own, SupportsIndex) else as_schedule(own)


def _backward(bits: BackwardBits, maximum: int) -> Schedule | None:
    if isinstance(bits, str) and bits == MAX:
        return None
    try:
        if bits is None or isinstance(bits, SupportsIndex):
            width = validate_bits(bits, "backward_bits", maximum)
            return Constant(None if width == FULL_WIDTH else width)
        return as_schedule(bits)
    except ValueError as error:
        expected = f"backward_bits must be an integer from 1 to {maximum}, None (full precision), 'max' or a schedule"
        raise ValueError(f"{expected}, got {short_repr(bits)}: {error}") from None


@lru_cache(maxsize=256)
def _largest(weights: Schedule, activations: Schedule, total: int) -> Bits:
    widths = [own.baseline(total) for own in (weights, activations)]
    return max((width for width in widths if width is not None), default=None)


def _width_of_each(widths: Integers) -> Integers:
    return np.where(widths == FULL, FULL_WIDTH, widths)
