"""Final quality against the length or the start of a deficit: a line with error bars for each arm.

The arms of one place would cover each other: they are drawn side by side. A deficit of length 0 is no deficit in any
arm: all lines begin in that point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bitcycle._support.charts.drawing import Drawing, Frame, end_labels, path, text
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle._support.charts.placing import text_width
from bitcycle._support.charts.scale import Scale
from bitcycle.lab import format as fmt
from bitcycle.lab.report.labels import ExperimentView, diverged, point_lines
from bitcycle.lab.report.quality_plot import Mark, PlotSize, interval_key, plot_titles, quality_scale, selectable
from bitcycle.lab.report.style import HELD, LONGER, ArmStyle
from bitcycle.lab.statistics.analysis import DeficitAnalysis, DeficitPoint

WIDE = PlotSize(960, 420, left=50, right=128, radius=5.5, spacing=11)
NARROW = PlotSize(380, 380, left=50, right=14, radius=4.5, spacing=7)
TOP, BOTTOM, FONT = 44.0, 76.0, 12.5


@dataclass(frozen=True)
class ArmLine:
    """An arm: its marks and the line through them."""

    arm: ArmStyle
    marks: list[Mark[DeficitPoint]]
    points: list[tuple[float, float]]


def deficit_layout(experiment: ExperimentView, size: PlotSize) -> tuple[Frame, list[ArmLine]] | None:
    """Return the frame and the lines in it, or None where no arm has a quality to show."""
    points = [point for point in experiment.points if not diverged(point)]
    if not points:
        return None
    frame = Frame(_x_scale(experiment, points, size), quality_scale(points, size.height - BOTTOM, TOP, seeds=False))
    arms = [arm for arm in experiment.arms if any(point.arm == arm.name for point in points)]
    positions = sorted({frame.x(point.share) for point in points})
    # Less where places are close, so that the arms of two places never mix.
    apart = min(size.spacing, min((b - a for a, b in pairwise(positions)), default=size.width) / 4)
    lines: list[ArmLine] = []
    origin = [point for point in points if experiment.without_deficit(point)]
    begin = [(frame.x(point.share), frame.y(point.quality.mean)) for point in origin]
    for i, arm in enumerate(arms):
        shift = apart * (i - (len(arms) - 1) / 2)
        marks = [
            Mark.at(frame.x(point.share) + (0 if point in origin else shift), point, frame)
            for point in points
            if point.arm == arm.name
        ]
        lines.append(ArmLine(arm, marks, [*([] if arm is LONGER else begin), *((each.x, each.y) for each in marks)]))
    return frame, lines


def _x_scale(experiment: ExperimentView, points: Sequence[DeficitPoint], size: PlotSize) -> Scale:
    shares = [point.share for point in points]
    low, high = 0.0 if experiment.by_length else min(shares), max(shares)
    room = 2.5 * size.spacing  # on both sides, for arms that are drawn side by side
    start, end = size.left, size.width - size.right
    margin = (high - low) * room / (end - start - 2 * room) if high > low else 0.5
    return Scale(low - margin, high + margin, start, end)


def deficit_plot(analysis: DeficitAnalysis, experiment: ExperimentView, size: PlotSize) -> Drawing | None:
    """Draw the plot, or return None where no arm has a quality to show."""
    layout = deficit_layout(experiment, size)
    if layout is None:
        return None
    frame, lines = layout
    ticks = _ticks(frame, lines)
    content = [
        plot_titles(analysis, experiment.axis, frame, size.height),
        frame.y_axis() + frame.x_axis([(number, share) for number, share, _ in ticks]),
        *(text(steps, frame.x(number), frame.box.bottom + 36, "hint") for number, _, steps in ticks),
        *(tag("g", path(each.points, f"stroke dash-{each.arm.dash}"), **_group(each.arm)) for each in lines),
        *(
            mark.draw(each.arm, size, selectable(each.arm, each.arm.name, point_lines(analysis, experiment, mark.row)))
            for each in lines
            for mark in each.marks
        ),
        "" if size.narrow else _names(frame, lines, size),
    ]
    title = f"{analysis.metric} against {experiment.axis}"
    description = f"arms {fmt.listed(each.arm.title for each in lines)}; the table below has the same numbers"
    key = (interval_key(HELD, experiment.points),)
    return Drawing(size.width, size.height, title, description, join(content), key=key)


def _ticks(frame: Frame, lines: Sequence[ArmLine]) -> list[tuple[float, str, str]]:
    """A tick at each place in normal runs and in steps, without texts where they would run into each other."""
    ticks: list[tuple[float, str, str]] = []
    taken = -1.0
    for place, share in sorted({(mark.row.place, mark.row.share) for each in lines for mark in each.marks}):
        steps = f"{place:,}" if ticks else fmt.count(place, "step")
        x, reach = frame.x(share), text_width(max(steps, fmt.number(share), key=len), FONT) / 2
        free = x - reach > taken
        ticks.append((share, fmt.number(share), steps) if free else (share, "", ""))
        taken = x + reach if free else taken
    return ticks


def _group(arm: ArmStyle) -> dict[str, str]:
    return {"class_": arm.class_, "data_setting": arm.name}


def _names(frame: Frame, lines: Sequence[ArmLine], size: PlotSize) -> Markup:
    """The names of the arms at the ends of their lines, which may end at different places."""
    parts = []
    for share in sorted({each.marks[-1].row.share for each in lines}):
        ends = [
            ((each.marks[-1].x + size.radius + 3, each.marks[-1].y), each.arm.title, _group(each.arm))
            for each in lines
            if each.marks[-1].row.share == share
        ]
        parts.append(end_labels(ends, frame.x(share) + 3.4 * size.spacing, frame.box, FONT + 3))
    return join(parts)
