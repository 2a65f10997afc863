"""The precision of a training: the bits of weights, activations and gradients, and the strength; and what it costs.

The defaults where a schedule contains full precision: ``backward_bits="max"`` is the largest integer width while the
forward pass is on bits, and full where both its operands are; evaluation is at the largest width of each operand, and
full precision is the largest; costs are compared with static training at the largest integer width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, SupportsIndex

import numpy as np

from bitcycle._support.text import short_repr
from bitcycle.schedules.base import (
    FULL_WIDTH,
    MAX_BITS,
    Bits,
    Integers,
    bits_of,
    blocks_of_steps,
    validate_bits,
    validate_steps,
    width_of,
)
from bitcycle.schedules.constant import Constant
from bitcycle.schedules.custom import Function, StrengthFunction
from bitcycle.schedules.interface import Group, Schedule
from bitcycle.schedules.spec import FULL_STRENGTH
from bitcycle.schedules.spec import schedule as as_schedule
from bitcycle.schedules.spec import strength as as_strength

MAX = "max"
AnySchedule = Schedule | str | Function
BackwardBits = AnySchedule | int | None
"""Bits of gradients: ``"max"``, an integer, ``None`` for full precision, a schedule or its spec."""
AnyStrength = Schedule | StrengthFunction | str | float

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
    strength: Schedule = FULL_STRENGTH

    @classmethod
    def of(
        cls,
        schedule: AnySchedule | None,
        backward_bits: BackwardBits = MAX,
        weights: AnySchedule | int | None = None,
        activations: AnySchedule | int | None = None,
        strength: AnyStrength | None = None,
    ) -> OperandSchedules:
        """Return the schedules that arguments describe, as :class:`bitcycle.PrecisionScheduler` takes them.

        Args:
            schedule: The schedule of both operands; ``None`` if each has its own.
            backward_bits: Bits of gradients.
            weights: The schedule of weights in place of ``schedule``, or a width.
            activations: The schedule of activations in place of ``schedule``, or a width.
            strength: The strength; full by default.

        Raises:
            ValueError: An argument is invalid.
        """
        both = None if schedule is None else as_schedule(schedule)
        w = both if weights is None else _operand(weights, "weights")
        a = both if activations is None else _operand(activations, "activations")
        if w is None or a is None:
            raise ValueError("give a schedule, or a schedule for weights and one for activations")
        return cls(w, a, _backward(backward_bits), as_strength(strength))

    def at(self, step: int, total: int) -> StepBits:
        """Return the bits of a step. Past the end they keep their last values."""
        strength = self.strength(step, total)  # checks the step and the total
        widths = self.widths(np.array([min(step, total - 1)], dtype=np.int64), total)
        weights, activations, backward = (bits_of(each.item()) for each in widths)
        return StepBits(weights, activations, backward, strength)

    def widths(self, steps: Integers, total: int) -> tuple[Integers, Integers, Integers]:
        """Return the widths of weights, activations and gradients at the given steps; full precision is 32."""
        w = self.weights.values(steps, total)
        a = w if self.activations is self.weights else self.activations.values(steps, total)
        if self.backward is not None:
            return w, a, self.backward.values(steps, total)
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

    def histogram(self, total: int) -> dict[Widths, int]:
        """Count the steps at each combination of widths of weights, activations and gradients."""
        total = validate_steps(total, "steps")
        shape = (FULL_WIDTH + 1,) * 3
        counts = np.zeros(np.prod(shape), dtype=np.int64)
        for steps in blocks_of_steps(total):
            w, a, g = self.widths(steps, total)
            w, a = (np.where(self.strength.values(steps, total) < 1, FULL_WIDTH, each) for each in (w, a))
            counts += np.bincount(np.ravel_multi_index((w, a, g), shape), minlength=counts.size)
        used = np.flatnonzero(counts)
        widths = zip(*(axis.tolist() for axis in np.unravel_index(used, shape)), strict=True)
        return dict(zip(widths, counts[used].tolist(), strict=True))

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
        gradients = largest if self.backward is None else Constant(_largest(self.backward, self.backward, total))
        if against is None:
            return OperandSchedules(largest, largest, gradients)
        return OperandSchedules(against, against, against if against == Constant(None) else gradients)

    def saving(self, total: int, against: int | None = None) -> float:
        """Return the share of the cost of the :meth:`baseline`, or of static training at a given width, that is saved.

        Negative if steps in full precision cost more than others save.

        >>> OperandSchedules.of("static:4", 6, activations=8).saving(10) == 1 - (32 + 24 + 48) / (64 + 48 + 48)
        True
        """
        return 1 - self.cost(total) / self.baseline(total, None if against is None else Constant(against)).cost(total)

    def group(self, total: int) -> Group | None:
        """Return which third of the possible saving is reached: that of static training at the smallest width.

        ``None`` if nothing is saved.
        """
        lowest = Constant(min((own.limits(total)[0] for own in (self.weights, self.activations)), key=width_of))
        baseline = self.baseline(total)
        possible = 1 - OperandSchedules(lowest, lowest, baseline.backward).cost(total) / baseline.cost(total)
        saving = self.saving(total)
        if saving <= 0 or possible <= 0:
            return None
        share = saving / possible
        return Group.LARGE if share > 2 / 3 else Group.MEDIUM if share > 1 / 3 else Group.SMALL


def _operand(own: AnySchedule | int | None, name: str) -> Schedule:
    if own is None or isinstance(own, SupportsIndex):
        return Constant(validate_bits(own, name))
    return as_schedule(own)


def _backward(bits: BackwardBits) -> Schedule | None:
    if isinstance(bits, str) and bits == MAX:
        return None
    try:
        return _operand(bits, "backward_bits")
    except ValueError as error:
        expected = f"backward_bits must be an integer from 1 to {MAX_BITS}, None (full precision), 'max' or a schedule"
        raise ValueError(f"{expected}, got {short_repr(bits)}: {error}") from None


@lru_cache(maxsize=256)
def _largest(weights: Schedule, activations: Schedule, total: int) -> Bits:
    widths: list[Bits] = []
    for own in (weights, activations):
        q_max = own.limits(total)[1]
        widths += own.histogram(total) if q_max is None else [q_max]
    return max((bits for bits in widths if bits is not None), default=None)
