"""The figures that distinguish schedules over a whole training."""

from __future__ import annotations

from typing import Any

from bitcycle.schedules.operands import OperandSchedules

EARLY = 0.1
"""The first part of training, in which low precision may do lasting damage."""


def schedule_summary(schedules: OperandSchedules, total: int) -> dict[str, Any]:
    """Return the mean bits, saving and group of a training; full precision counts as 32 bits.

    >>> summary = schedule_summary(OperandSchedules.of("RR:3-8"), 64_000)
    >>> round(100 * summary["saving"], 1), summary["mean_bits_gradients"], str(summary["group"])
    (60.1, 8.0, 'large')
    """
    operands = schedules.weights, schedules.activations
    w, a = (each.mean_bits(total) for each in operands)
    return {
        "schedule": schedules.label,
        "mean_bits": (w + a) / 2,
        "saving": schedules.saving(total),
        "mean_bits_first_tenth": sum(each.mean_bits(total, EARLY) for each in operands) / 2,
        "group": schedules.group(total),
        "mean_bits_weights": w,
        "mean_bits_activations": a,
        "mean_bits_gradients": sum(g * n for (_, _, g), n in schedules.histogram(total).items()) / total,
        "mean_strength": float(schedules.strength.over(total).mean()),
    }
