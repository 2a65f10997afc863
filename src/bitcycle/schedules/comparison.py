"""Schedules side by side: the numbers that distinguish them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bitcycle.schedules.base import Bits, Group, Schedule

EARLY = 0.1
"""The first part of training, in which low precision may do lasting damage."""


@dataclass(frozen=True)
class ScheduleSummary:
    """The numbers of one schedule over a whole training."""

    schedule: Schedule
    mean_bits: float
    saving: float
    """Against static q_max, from 0 to 1."""
    early_bits: float
    """Mean bits over the first tenth of training."""
    group: Group | None

    def as_dict(self) -> dict[str, object]:
        """Return everything as plain values, for JSON."""
        return {
            "schedule": str(self.schedule),
            "mean_bits": self.mean_bits,
            "saving": self.saving,
            "mean_bits_first_tenth": self.early_bits,
            "group": self.group,
        }


def compare(schedules: Iterable[Schedule], total: int, backward_bits: Bits | str = "max") -> list[ScheduleSummary]:
    """Return the mean bits, the saving, the mean bits of the first tenth, and the group of each schedule.

    Args:
        schedules: The schedules to compare.
        total: Total number of training steps.
        backward_bits: Gradient bits; ``"max"`` is each schedule's q_max, ``None`` is full precision.

    Returns:
        One summary per schedule, in the given order.

    Example:
        >>> from bitcycle.schedules import schedule
        >>> [summary] = compare([schedule("RR:3-8")], 64_000)
        >>> round(100 * summary.saving, 1), str(summary.group)
        (60.1, 'large')
    """
    return [
        ScheduleSummary(
            s,
            s.mean_bits(total),
            s.saving(total, backward_bits),
            s.mean_bits(total, EARLY),
            s.group(total, backward_bits),
        )
        for s in schedules
    ]
