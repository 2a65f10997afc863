"""A range test as a figure: the short trainings, and the share of full precision's progress that each level keeps."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bitcycle._support.charts.drawing import (
    Drawing,
    Frame,
    MarkShape,
    end_labels,
    error_bar,
    line_sample,
    mark,
    path,
    text,
)
from bitcycle._support.charts.files import checked, grid, save
from bitcycle._support.charts.markup import join, tag
from bitcycle._support.charts.scale import Scale, tick_texts

if TYPE_CHECKING:
    from bitcycle._range_test import LevelResult, RangeTestResult

WORKS, FAILS = "kind-large", "kind-medium"
WIDTH, HEIGHT, TOP, BOTTOM, LEFT = 460.0, 300.0, 14.0, 250.0, 56.0
WORST, BEST = -0.25, 1.25  # shares beyond are drawn here


def draw_range_test(test: RangeTestResult, path: Path) -> None:
    """Draw the curves of all levels and what they keep, and save the figure as PNG or SVG.

    Raises:
        ValueError: If the path ends in neither ``.png`` nor ``.svg``.
    """
    checked(path)
    outcome = "no q_min" if test.q_min is None else f"q_min = {test.q_min} bits"
    key = (
        (tag("g", line_sample("stroke") + mark(MarkShape.CIRCLE, 15, 8, 4), class_=WORKS), "training works"),
        (tag("g", line_sample("stroke") + mark(MarkShape.CROSS, 15, 8, 4), class_=FAILS), "training fails"),
        (line_sample("threshold"), "share that a level has to keep"),
    )
    save(grid(f"Precision range test: {outcome}", [_curves(test), _kept(test)], 2, key), path)


def _curves(test: RangeTestResult) -> Drawing:
    """The median over seeds of each level, on the scale of full precision's own curve."""
    rows = [*test.evidence, test.reference]
    curves = {row.bits: _median(row) for row in rows}
    own = curves[test.reference.bits]
    span = (max(own) - min(own)) or 1.0
    values = [value for row in rows if not row.diverged for value in curves[row.bits]]
    low = max(min(values, default=0.0), min(own) - span) - 0.05 * span
    high = min(max(values, default=1.0), max(own) + span) + 0.05 * span
    frame = Frame(Scale(0, max(1, len(own) - 1), LEFT, WIDTH - 60), Scale(low, high, BOTTOM, TOP))
    lines, ends = [], []
    for row in rows:
        points = [(i, min(max(value, low - span), high + span)) for i, value in enumerate(curves[row.bits])]
        points = [(i, value) for i, value in points if value == value]  # NaN has no place
        if not points:
            continue
        class_ = "reference" if row.bits is None else "stroke"
        kind = "kind-full" if row.bits is None else WORKS if row.works else FAILS
        lines.append(tag("g", path(frame.points(points), class_), class_=kind))
        end = (frame.box.right + 1, frame.y(points[-1][1]))
        ends.append((end, "full" if row.bits is None else f"{row.bits} bits", {"class_": kind}))
    numbers = frame.x.ticks(4)
    content = join(
        [
            *(frame.y_axis(5), frame.x_axis(list(zip(numbers, tick_texts(numbers), strict=True)))),
            *(frame.clipped(*lines), end_labels(ends, frame.box.right + 9, frame.box)),
            text("iteration", frame.box.right, HEIGHT - 8, "title", "end"),
        ]
    )
    return Drawing(WIDTH, HEIGHT, "Value that the step returns, median over seeds", "a line per level", content)


def _kept(test: RangeTestResult) -> Drawing:
    levels = [row.bits or 0 for row in test.evidence] or [0, 1]
    frame = Frame(Scale(min(levels) - 0.5, max(levels) + 0.5, LEFT, WIDTH - 12), Scale(-0.35, 1.3, BOTTOM, TOP))
    parts = [frame.y_axis(ticks=[0.0, 0.25, 0.5, 0.75, 1.0]), frame.across(test.share, "threshold")]
    if test.q_min is not None:
        parts.append(tag("rect", x=frame.x(test.q_min) - 9, y=TOP, width=18, height=BOTTOM - TOP, class_="band"))
        parts.append(text("q_min", frame.x(test.q_min), TOP + 12, "label"))
    for row in test.evidence:
        x = frame.x(row.bits or 0)
        if row.diverged:
            parts.append(text("diverges", x, frame.y(WORST), "tick"))
            continue
        low, kept, high = (
            frame.y(max(WORST, min(BEST, value))) for value in (row.interval[0], row.kept, row.interval[1])
        )
        bar = error_bar(x, high, low) if row.interval[0] == row.interval[0] else ""
        shape = MarkShape.CIRCLE if row.works else MarkShape.CROSS
        parts.append(tag("g", bar, mark(shape, x, kept, 5), class_=WORKS if row.works else FAILS))
    parts.append(frame.x_axis([(row.bits or 0, str(row.bits)) for row in test.evidence]))
    parts.append(text("bits", frame.box.right, HEIGHT - 8, "title", "end"))
    return Drawing(WIDTH, HEIGHT, "Share of full precision's progress", "a mark per level", join(parts))


def _median(row: LevelResult) -> list[float]:
    return [median(values) for values in zip(*row.curves, strict=False)]
