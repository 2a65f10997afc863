"""Schedules as charts: the bits over training, a panel per schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitcycle._support.charts.drawing import Drawing, Frame, text
from bitcycle._support.charts.files import checked, grid, save
from bitcycle._support.charts.markup import coordinate, join, tag
from bitcycle._support.charts.scale import Scale
from bitcycle.schedules.base import FULL, FULL_WIDTH, Schedule
from bitcycle.schedules.comparison import ScheduleSummary

COLUMNS = 4
MOST_POINTS = 2000  # a schedule is sampled at no more steps than this
WIDTH, HEIGHT = 200.0, 96.0
GROUPS: tuple[tuple[str | None, str, str], ...] = (
    ("large", "large saving", "kind-large"),
    ("medium", "medium saving", "kind-medium"),
    ("small", "small saving", "kind-small"),
    (None, "no saving", "kind-full"),
)

Stretch = tuple[float, float, int]
"""Start and end of a stretch with constant bits, as fractions of training, and its bits."""


def stretches(schedule: Schedule, total: int) -> list[Stretch]:
    """Return the stretches of training with constant bits; full precision counts as 32.

    >>> from bitcycle.schedules import schedule
    >>> stretches(schedule("deficit(3@0..50, static:8)"), 100)
    [(0.0, 0.5, 3), (0.5, 1.0, 8)]
    """
    steps = np.unique(np.linspace(0, total - 1, min(total, MOST_POINTS)).astype(np.int64))
    widths = schedule.widths(steps, total)
    widths = np.where(widths == FULL, FULL_WIDTH, widths)
    starts = np.flatnonzero(np.diff(widths, prepend=-1))
    edges = [float(steps[i]) / total for i in starts] + [1.0]
    return [(edges[i], edges[i + 1], int(widths[start])) for i, start in enumerate(starts)]


@dataclass(frozen=True)
class BitScale:
    """A scale that panels share: linear up to ``high``, with full precision close above instead of at 32."""

    low: int
    high: int
    full: bool

    @classmethod
    def of(cls, schedules: Iterable[Sequence[Stretch]]) -> BitScale:
        """Return the scale that holds all schedules.

        >>> BitScale.of([[(0.0, 0.5, 3), (0.5, 1.0, 32)], [(0.0, 1.0, 8)]])
        BitScale(low=3, high=8, full=True)
        """
        widths = {bits for known in schedules for *_, bits in known}
        bits = widths - {FULL_WIDTH}
        return cls(min(bits), max(bits), FULL_WIDTH in widths) if bits else cls(FULL_WIDTH, FULL_WIDTH, False)

    @property
    def top(self) -> float:
        """The height of full precision."""
        return 1.35 * self.high if self.full else self.high

    def levels(self) -> list[tuple[float, str]]:
        """Return the heights of the grid lines with their texts; the least bits only where there is room."""
        bits = sorted({0, self.high, *([self.low] if self.high / 6 <= self.low <= self.high * 5 / 6 else [])})
        return [(float(level), str(level)) for level in bits] + [(self.top, str(FULL_WIDTH))] * self.full


def bits_panel(title: str, note: str, known: Sequence[Stretch], scale: BitScale, class_: str) -> Drawing:
    """Draw the bits over training."""
    frame = Frame(Scale(0, 1, 22, WIDTH - 4), Scale(0, scale.top, HEIGHT - 20, 6))
    box = frame.box
    heights = [frame.y(min(bits, scale.top)) for *_, bits in known]
    outline = f"M{coordinate(box.left)} {coordinate(heights[0])}"
    for (_, end, _), height in zip(known, heights, strict=True):
        outline += f"V{coordinate(height)}H{coordinate(frame.x(end))}"
    widths = [bits for *_, bits in known]
    content = join(
        [
            *(frame.across(level, "grid") for level, _ in scale.levels()),
            *(text(label, box.left - 6, frame.y(level) + 4, "tick", "end") for level, label in scale.levels()),
            tag("path", d=f"{outline}V{coordinate(box.bottom)}H{coordinate(box.left)}Z", class_="area"),
            tag("path", d=outline, class_="stroke"),
            text("start", box.left, HEIGHT - 5, "tick", "start"),
            text("end of training", box.right, HEIGHT - 5, "tick", "end"),
        ]
    )
    description = f"bits over training, {min(widths)} to {max(widths)}"
    return Drawing(WIDTH, HEIGHT, title, description, tag("g", content, class_=class_), note)


def draw_schedules(rows: Sequence[ScheduleSummary], total: int, path: Path) -> None:
    """Draw the bits over training for each schedule, and save the figure as PNG or SVG.

    Raises:
        ValueError: If the path ends in neither ``.png`` nor ``.svg``.
    """
    checked(path)
    known = [stretches(row.schedule, total) for row in rows]
    scale = BitScale.of(known)
    panels = [
        bits_panel(str(row.schedule), f"{title}: {100 * row.saving:.1f} %" if group else title, some, scale, class_)
        for group, title, class_ in GROUPS
        for row, some in zip(rows, known, strict=True)
        if row.group == group
    ]
    save(grid(f"Precision schedules over {total:,} steps, by saving against static q_max", panels, COLUMNS), path)
