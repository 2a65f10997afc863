"""Final quality against the length or the start of a deficit: a line with error bars for each arm.

The arms of one place would cover each other: they are drawn side by side. A deficit of length 0 is no deficit in any
arm: all lines begin in that point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bitcycle._study import format as fmt
from bitcycle._study.analysis import DeficitAnalysis, DeficitPoint
from bitcycle._study.report.cost_plot import error_ends, focusable, interval_key, plot_titles, quality_scale
from bitcycle._study.report.labels import ExperimentView, diverged, point_lines
from bitcycle._study.report.style import HELD, LONGER, ArmStyle
from bitcycle._support.charts.drawing import Drawing, Frame, error_bar, line, mark, path, text
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle._support.charts.placing import spread, text_width
from bitcycle._support.charts.scale import Scale


@dataclass(frozen=True)
class DeficitPlotSize:
    """The dimensions of a plot, in pixels."""

    width: float
    height: float
    right: float
    radius: float
    apart: float
    """The distance of arms that are drawn side by side."""
    named: bool
    """Whether there is room for the names of the arms beside their lines."""


WIDE = DeficitPlotSize(960, 420, right=128, radius=5.5, apart=11, named=True)
NARROW = DeficitPlotSize(380, 380, right=14, radius=4.5, apart=7, named=False)
LEFT, TOP, BOTTOM, FONT = 50.0, 44.0, 76.0, 12.5


@dataclass(frozen=True)
class Mark:
    """A point on the plot."""

    point: DeficitPoint
    x: float
    y: float
    top: float
    bottom: float
    """The ends of the error bar; equal to ``y`` without one."""


@dataclass(frozen=True)
class ArmLine:
    """An arm: its marks and the line through them."""

    arm: ArmStyle
    marks: list[Mark]
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class DeficitLayout:
    """All positions."""

    frame: Frame
    lines: list[ArmLine]


def deficit_layout(experiment: ExperimentView, size: DeficitPlotSize) -> DeficitLayout | None:
    """Return the layout, or None where no arm has a quality to show."""
    points = [point for point in experiment.points if not diverged(point)]
    if not points:
        return None
    frame = Frame(_x_scale(experiment, points, size), quality_scale(points, size.height - BOTTOM, TOP, seeds=False))
    arms = [arm for arm in experiment.arms if any(point.arm == arm.name for point in points)]
    positions = sorted({frame.x(point.share) for point in points})
    # Less where places are close, so that the arms of two places never mix.
    apart = min(size.apart, min((b - a for a, b in pairwise(positions)), default=size.width) / 4)
    lines: list[ArmLine] = []
    origin = [point for point in points if experiment.without_deficit(point)]
    begin = [(frame.x(point.share), frame.y(point.quality.mean)) for point in origin]
    for i, arm in enumerate(arms):
        shift = apart * (i - (len(arms) - 1) / 2)
        marks = [
            Mark(point, frame.x(point.share) + (0 if point in origin else shift), *error_ends(point, frame))
            for point in points
            if point.arm == arm.name
        ]
        lines.append(ArmLine(arm, marks, [*([] if arm is LONGER else begin), *((each.x, each.y) for each in marks)]))
    return DeficitLayout(frame, lines)


def _x_scale(experiment: ExperimentView, points: Sequence[DeficitPoint], size: DeficitPlotSize) -> Scale:
    shares = [point.share for point in points]
    low, high = 0.0 if experiment.by_length else min(shares), max(shares)
    room = 2.5 * size.apart  # on both sides, for arms that are drawn side by side
    start, end = LEFT, size.width - size.right
    margin = (high - low) * room / (end - start - 2 * room) if high > low else 0.5
    return Scale(low - margin, high + margin, start, end)


def deficit_plot(analysis: DeficitAnalysis, experiment: ExperimentView, size: DeficitPlotSize) -> Drawing | None:
    """Draw the plot, or return None where no arm has a quality to show."""
    layout = deficit_layout(experiment, size)
    if layout is None:
        return None
    frame, lines = layout.frame, layout.lines
    ticks = _ticks(layout)
    content = [
        plot_titles(analysis, experiment.axis, frame, size.height),
        frame.y_axis() + frame.x_axis([(number, share) for number, share, _ in ticks]),
        *(text(steps, frame.x(number), frame.box.bottom + 36, "hint") for number, _, steps in ticks),
        *(tag("g", path(each.points, f"stroke dash-{each.arm.dash}"), **_group(each.arm)) for each in lines),
        *(_point(analysis, experiment, each.arm, one, size) for each in lines for one in each.marks),
        _names(layout, size) if size.named else "",
    ]
    several = any(fmt.has_interval(point.quality) for point in experiment.points)
    title = f"{analysis.metric} against {experiment.axis}"
    description = f"arms {fmt.listed(each.arm.title for each in lines)}; the table below has the same numbers"
    key = (interval_key(HELD.kind, several),)
    return Drawing(size.width, size.height, title, description, join(content), key=key)


def _ticks(layout: DeficitLayout) -> list[tuple[float, str, str]]:
    """A tick at each place in normal trainings and in steps, without texts where they would run into each other."""
    ticks: list[tuple[float, str, str]] = []
    taken = -1.0
    for place, share in sorted({(each.point.place, each.point.share) for arm in layout.lines for each in arm.marks}):
        steps = f"{place:,}" if ticks else fmt.count(place, "step")
        x, reach = layout.frame.x(share), text_width(max(steps, f"{share:.3g}", key=len), FONT) / 2
        free = x - reach > taken
        ticks.append((share, f"{share:.3g}", steps) if free else (share, "", ""))
        taken = x + reach if free else taken
    return ticks


def _group(arm: ArmStyle) -> dict[str, str]:
    return {"class_": arm.kind.class_, "data_setting": arm.key}


def _point(
    analysis: DeficitAnalysis, experiment: ExperimentView, arm: ArmStyle, each: Mark, size: DeficitPlotSize
) -> Markup:
    left, height = each.x - size.apart / 2, each.bottom - each.top + 18
    return tag(
        "g",
        tag("rect", x=left, y=each.top - 9, width=size.apart, height=height, class_="hit"),
        error_bar(each.x, each.top, each.bottom),
        mark(arm.kind.shape, each.x, each.y, size.radius),
        **focusable(f"point {arm.kind.class_}", arm.key, point_lines(analysis, experiment, each.point)),
    )


def _names(layout: DeficitLayout, size: DeficitPlotSize) -> Markup:
    """The names of the arms at the ends of their lines, which may end at different places."""
    box = layout.frame.box
    parts = []
    for share in sorted({each.marks[-1].point.share for each in layout.lines}):
        ending = [each for each in layout.lines if each.marks[-1].point.share == share]
        left = layout.frame.x(share) + 3.4 * size.apart
        heights = spread([each.points[-1][1] for each in ending], FONT + 3, box.top + 4, box.bottom - 4)
        for each, y in zip(ending, heights, strict=True):
            end_x, end_y = each.points[-1]
            leader = line(end_x + size.radius + 3, end_y, left - 4, y, "leader")
            parts.append(tag("g", leader, text(each.arm.title, left, y + 4, "label", "start"), **_group(each.arm)))
    return join(parts)
