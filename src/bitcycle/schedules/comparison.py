"""Schedules side by side: the numbers that distinguish them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bitcycle.schedules.interface import Group, Schedule
from bitcycle.schedules.operands import AnySchedule, AnyStrength, BackwardBits, OperandSchedules

EARLY = 0.1
"""The first part of training, in which low precision may do lasting damage."""


@dataclass(frozen=True)
class ScheduleSummary:
    """The numbers of one schedule over a whole training."""

    operands: OperandSchedules
    mean_bits: float
    """Of weights and activations; full precision counts as 32."""
    saving: float
    """Against static training at the largest integer width, at most 1."""
    early_bits: float
    """Mean bits over the first tenth of training."""
    group: Group | None
    mean_weights: float
    mean_activations: float
    mean_gradients: float
    """Of the gradients; full precision counts as 32."""
    mean_strength: float

    def as_dict(self) -> dict[str, object]:
        """Return everything as plain values, for JSON."""
        return {
            "schedule": self.operands.label,
            "mean_bits": self.mean_bits,
            "saving": self.saving,
            "mean_bits_first_tenth": self.early_bits,
            "group": self.group,
            "mean_bits_weights": self.mean_weights,
            "mean_bits_activations": self.mean_activations,
            "mean_bits_gradients": self.mean_gradients,
            "mean_strength": self.mean_strength,
        }


def compare(
    schedules: Iterable[Schedule],
    total: int,
    backward_bits: BackwardBits = "max",
    *,
    weights: AnySchedule | int | None = None,
    activations: AnySchedule | int | None = None,
    strength: AnyStrength | None = None,
) -> list[ScheduleSummary]:
    """Return the mean bits, the saving, the mean bits of the first tenth, and the group of each schedule.

    Args:
        schedules: The schedules to compare.
        total: Total number of training steps.
        backward_bits: Bits of the gradients, as :class:`bitcycle.PrecisionScheduler` takes them.
        weights: The schedule of weights in place of each schedule, or a width.
        activations: The schedule of activations in place of each schedule, or a width.
        strength: The strength; full by default.

    Returns:
        One summary per schedule, in the given order.

    Example:
        >>> from bitcycle.schedules import schedule
        >>> [summary] = compare([schedule("RR:3-8")], 64_000)
        >>> round(100 * summary.saving, 1), str(summary.group)
        (60.1, 'large')
        >>> [summary] = compare([schedule("static:4")], 100, backward_bits=6, activations=8)
        >>> summary.saving == 1 - (4 * 8 + 6 * 4 + 6 * 8) / (8 * 8 + 2 * 6 * 8)
        True
    """
    combinations = (OperandSchedules.of(s, backward_bits, weights, activations, strength) for s in schedules)
    return [_summary(operands, total) for operands in combinations]


def _summary(operands: OperandSchedules, total: int) -> ScheduleSummary:
    w, a = operands.weights.mean_bits(total), operands.activations.mean_bits(total)
    early = (operands.weights.mean_bits(total, EARLY) + operands.activations.mean_bits(total, EARLY)) / 2
    gradients = sum(g * n for (_, _, g), n in operands.histogram(total).items()) / total
    return ScheduleSummary(
        operands,
        mean_bits=(w + a) / 2,
        saving=operands.saving(total),
        early_bits=early,
        group=operands.group(total),
        mean_weights=w,
        mean_activations=a,
        mean_gradients=gradients,
        mean_strength=operands.mean_strength(total),
    )
