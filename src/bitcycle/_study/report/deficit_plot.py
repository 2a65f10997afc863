"""Final quality against the length or the start of a deficit: a line with error bars for each arm.

The arms of one place would cover each other: they are drawn side by side. A deficit of length 0 is no deficit in any
arm: all lines begin in that point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bitcycle._study.analysis import DeficitAnalysis, DeficitPoint
from bitcycle._study.report import format as fmt
from bitcycle._study.report.cost_plot import focusable, interval_key
from bitcycle._study.report.labels import Experiment, better_text, diverged, point_lines
from bitcycle._study.report.style import HELD, LONGER, Arm
from bitcycle._support.charts.drawing import Drawing, Frame, error_bar, line, mark, path, text
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle._support.charts.placing import shortened, spread, text_width
from bitcycle._support.charts.scale import Scale, span


@dataclass(frozen=True)
class Size:
    """The dimensions of a plot, in pixels."""

    width: float
    height: float
    right: float
    radius: float
    apart: float
    """The distance of arms that are drawn side by side."""
    named: bool
    """Whether there is room for the names of the arms beside their lines."""


WIDE = Size(960, 420, right=128, radius=5.5, apart=11, named=True)
NARROW = Size(380, 380, right=14, radius=4.5, apart=7, named=False)
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

    arm: Arm
    marks: list[Mark]
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class DeficitLayout:
    """All positions."""

    frame: Frame
    lines: list[ArmLine]
    x_ticks: list[tuple[float, str, str]]
    """Numbers, their texts in normal trainings, and in steps."""


def deficit_layout(experiment: Experiment, size: Size) -> DeficitLayout | None:
    """Return the layout, or None where no arm has a quality to show."""
    points = [point for point in experiment.points if not diverged(point)]
    if not points:
        return None
    frame = _frame(experiment, points, size)
    arms = [arm for arm in experiment.arms if any(point.arm == arm.name for point in points)]
    apart = _apart(points, frame, size)
    shifts = {arm.name: apart * (i - (len(arms) - 1) / 2) for i, arm in enumerate(arms)}
    marks = [_mark(point, frame, 0.0 if experiment.without_deficit(point) else shifts[point.arm]) for point in points]
    origin = [(mark.x, mark.y) for mark in marks if experiment.without_deficit(mark.point)]
    lines = []
    for arm in arms:
        own = [mark for mark in marks if mark.point.arm == arm.name]
        begin = [] if arm is LONGER else origin
        lines.append(ArmLine(arm, own, [*begin, *((mark.x, mark.y) for mark in own)]))
    return DeficitLayout(frame, lines, _ticks(points, frame))


def _frame(experiment: Experiment, points: Sequence[DeficitPoint], size: Size) -> Frame:
    shares = [point.share for point in points]
    low, high = 0.0 if experiment.by_length else min(shares), max(shares)
    room = 2.5 * size.apart  # on both sides, for arms that are drawn side by side
    start, end = LEFT, size.width - size.right
    margin = (high - low) * room / (end - start - 2 * room) if high > low else 0.5
    estimates = [point.quality for point in points]
    heights = [value for e in estimates for value in (e.mean, e.low, e.high)]
    x = Scale(low - margin, high + margin, start, end)
    return Frame(x, Scale(*span(heights, margin=0.08), size.height - BOTTOM, TOP))


def _apart(points: Sequence[DeficitPoint], frame: Frame, size: Size) -> float:
    """The distance between arms: less where places are close, so that the arms of two places never mix."""
    positions = sorted({frame.x(point.share) for point in points})
    nearest = min((b - a for a, b in pairwise(positions)), default=size.width)
    return min(size.apart, nearest / 4)


def _mark(point: DeficitPoint, frame: Frame, shift: float) -> Mark:
    x, y = frame.x(point.share) + shift, frame.y(point.quality.mean)
    if not fmt.has_interval(point.quality):
        return Mark(point, x, y, y, y)
    return Mark(point, x, y, frame.y(point.quality.high), frame.y(point.quality.low))


def _ticks(points: Sequence[DeficitPoint], frame: Frame) -> list[tuple[float, str, str]]:
    """A tick at each place, without a text where it would run into the one before."""
    ticks: list[tuple[float, str, str]] = []
    taken = -1.0
    for place, share in sorted({(point.place, point.share) for point in points}):
        steps = f"{place:,}" if ticks else fmt.count(place, "step")
        reach = text_width(max(steps, f"{share:.3g}", key=len), FONT) / 2
        free = frame.x(share) - reach > taken
        ticks.append((share, f"{share:.3g}", steps) if free else (share, "", ""))
        taken = frame.x(share) + reach if free else taken
    return ticks


def deficit_plot(analysis: DeficitAnalysis, experiment: Experiment, size: Size) -> Drawing | None:
    """Draw the plot, or return None where no arm has a quality to show."""
    layout = deficit_layout(experiment, size)
    if layout is None:
        return None
    frame = layout.frame
    box = frame.box
    arrow = "↑" if analysis.higher_is_better else "↓"
    content = [
        text(f"{shortened(analysis.metric)} on the test set", 0, 18, "title", "start"),
        text(f"{arrow} {better_text(analysis)}", box.right, 18, "hint", "end"),
        frame.y_axis(),
        frame.x_axis([(number, share) for number, share, _ in layout.x_ticks]),
        *(text(steps, frame.x(number), box.bottom + 36, "hint") for number, _, steps in layout.x_ticks),
        text(experiment.axis, box.right, size.height - 8, "title", "end"),
        *(tag("g", path(each.points, f"stroke dash-{each.arm.dash}"), **_group(each.arm)) for each in layout.lines),
        *(_point(analysis, experiment, each.arm, one, size) for each in layout.lines for one in each.marks),
        _names(layout, size) if size.named else "",
    ]
    several = any(fmt.has_interval(point.quality) for point in experiment.points)
    single = (Markup(""), "a single seed: no error bars; one seed cannot separate damage from noise")
    title = f"{analysis.metric} against {experiment.axis}"
    description = f"arms {fmt.listed(each.arm.title for each in layout.lines)}; the table below has the same numbers"
    key = (interval_key(HELD.kind),) if several else (single,)
    return Drawing(size.width, size.height, title, description, join(content), key=key)


def _group(arm: Arm) -> dict[str, str]:
    return {"class_": arm.kind.class_, "data_setting": arm.key}


def _point(analysis: DeficitAnalysis, experiment: Experiment, arm: Arm, each: Mark, size: Size) -> Markup:
    half, height = size.apart / 2, each.bottom - each.top + 18
    return tag(
        "g",
        tag("rect", x=each.x - half, y=each.top - 9, width=2 * half, height=height, class_="hit"),
        error_bar(each.x, each.top, each.bottom),
        mark(arm.kind.shape, each.x, each.y, size.radius),
        **focusable(f"point {arm.kind.class_}", arm.key, point_lines(analysis, experiment, each.point)),
    )


def _names(layout: DeficitLayout, size: Size) -> Markup:
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
