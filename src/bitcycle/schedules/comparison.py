"""Schedules side by side: the figures that tell them apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bitcycle.schedules.base import Bits, Schedule

EARLY = 0.1
"""The first part of training, in which low precision is suspected to do lasting damage."""


@dataclass(frozen=True)
class Row:
    """One schedule's figures over a whole training."""

    schedule: Schedule
    mean_bits: float
    saving: float
    early_bits: float
    group: str | None

    def as_dict(self) -> dict[str, object]:
        return {
            "schedule": str(self.schedule),
            "mean_bits": self.mean_bits,
            "saving": self.saving,
            "mean_bits_first_tenth": self.early_bits,
            "group": self.group,
        }


def compare(schedules: Iterable[Schedule], total: int, backward_bits: Bits | str = "max") -> list[Row]:
    """Mean bits, saving against static q_max, mean bits of the first tenth, and group of each schedule.

    >>> from bitcycle.schedules import schedule
    >>> [row] = compare([schedule("RR:3-8")], 64_000)
    >>> round(100 * row.saving, 1), row.group
    (60.1, 'large')
    """
    return [
        Row(
            s,
            s.mean_bits(total),
            s.saving(total, backward_bits),
            s.mean_bits(total, EARLY),
            s.group(total, backward_bits),
        )
        for s in schedules
    ]
