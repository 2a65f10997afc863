"""Schedules as plans and commands name them, and the figures that distinguish them over a whole training."""

from __future__ import annotations

from typing import Any

from bitcycle.schedules import Schedule
from bitcycle.schedules.base import Quantity
from bitcycle.schedules.grammar import Reader
from bitcycle.schedules.operands import OperandSchedules
from bitcycle.schedules.spec import FULL_STRENGTH

EARLY = 0.1
"""The first part of training, in which low precision may do lasting damage."""


def complete(spec: str, bits: tuple[int, int] | None, cycles: int | None) -> Schedule:
    """Make a schedule like :func:`bitcycle.schedule`, but accept bits and cycles that the spec does not need.

    >>> [str(complete(spec, (3, 8), 2)) for spec in ("CR", "static:8")]
    ['CR:3-8:cycles=2', 'static:8']
    """
    return Reader(Quantity.BITS, bits, cycles).read(spec)


def schedule_label(schedules: OperandSchedules) -> str:
    """Return the schedules of the operands, such as ``W static:4 A static:8``."""
    weights, activations, strength = schedules.weights, schedules.activations, schedules.strength
    forward = str(weights) if weights == activations else f"W {weights} A {activations}"
    return forward if strength == FULL_STRENGTH else f"{forward} strength {strength}"


def schedule_summary(schedules: OperandSchedules, total: int) -> dict[str, Any]:
    """Return the mean bits, saving and group of a training; full precision counts as 32 bits.

    >>> summary = schedule_summary(OperandSchedules.of("RR:3-8"), 64_000)
    >>> round(100 * summary["saving"], 1), summary["mean_bits_gradients"], str(summary["group"])
    (60.1, 8.0, 'large')
    """
    operands = schedules.weights, schedules.activations
    w, a = (each.mean_bits(total) for each in operands)
    return {
        "schedule": schedule_label(schedules),
        "mean_bits": (w + a) / 2,
        "saving": schedules.saving(total),
        "mean_bits_first_tenth": sum(each.mean_bits(total, EARLY) for each in operands) / 2,
        "group": schedules.group(total),
        "mean_bits_weights": w,
        "mean_bits_activations": a,
        "mean_bits_gradients": sum(g * n for (_, _, g), n in schedules.histogram(total).items()) / total,
        "mean_strength": float(schedules.strength.over(total).mean()),
    }
