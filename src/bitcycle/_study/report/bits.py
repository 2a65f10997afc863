"""The bits of a schedule over training, as few numbers as a drawing needs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from bitcycle._study.analysis import Setting
from bitcycle.schedules import schedule
from bitcycle.schedules.base import FULL, FULL_WIDTH

MOST_POINTS = 2000  # a schedule is looked at in at most so many steps

Stretch = tuple[float, float, int]
"""From where to where, as parts of training, at how many bits."""


def stretches(setting: Setting) -> list[Stretch]:
    """The stretches of training with the same bits; none where the schedule is not known here.

    A spec may name a user's function, which the reader of a report need not have.
    """
    return _stretches(setting.run.schedule, setting.run.steps)


@lru_cache(maxsize=1024)
def _stretches(spec: str, total: int) -> list[Stretch]:
    try:
        bits = schedule(spec)
        steps = np.unique(np.linspace(0, total - 1, min(total, MOST_POINTS)).astype(np.int64))
        widths = bits.widths(steps, total)
    except ValueError:
        return []
    widths = np.where(widths == FULL, FULL_WIDTH, widths)
    starts = np.flatnonzero(np.diff(widths, prepend=-1))
    edges = [float(steps[i]) / total for i in starts] + [1.0]
    return [(edges[i], edges[i + 1], int(widths[start])) for i, start in enumerate(starts)]


def limits(settings: list[Setting]) -> tuple[int, int]:
    """The least and the most bits of all the schedules, full precision apart."""
    bits = {width for setting in settings for _, _, width in stretches(setting) if width != FULL_WIDTH}
    return (min(bits), max(bits)) if bits else (1, FULL_WIDTH)
