"""Where everything stands in a plot of a deficit experiment; drawn as SVG by the page and by matplotlib as a figure.

The arms of one length or position would cover each other: they stand side by side. A deficit of no length is no
deficit in any arm: there, all lines begin in one point.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from bitcycle._study.analysis import DeficitPoint
from bitcycle._study.report import words
from bitcycle._study.report.deficits.arms import Arm
from bitcycle._study.report.deficits.facts import Experiment, diverged
from bitcycle._study.report.placing import spread, text_width
from bitcycle._study.report.scale import Scale, span
from bitcycle._study.report.svg import Frame


@dataclass(frozen=True)
class Size:
    """The measures of a layout, in pixels."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    radius: float
    apart: float
    """Between the arms of one place."""
    named: bool
    """Whether there is room for the names of the arms beside their lines."""


WIDE = Size(960, 430, left=62, right=128, top=44, bottom=76, radius=5.5, apart=11, named=True)
NARROW = Size(380, 380, left=50, right=14, top=44, bottom=76, radius=4.5, apart=7, named=False)
FONT = 12.5


@dataclass(frozen=True)
class Mark:
    """A point's place."""

    point: DeficitPoint
    x: float
    y: float
    top: float
    bottom: float
    """The ends of the error bar; ``y`` itself without one."""


@dataclass(frozen=True)
class ArmLine:
    """An arm: its marks and the line through them."""

    arm: Arm
    marks: list[Mark]
    places: list[tuple[float, float]]


@dataclass(frozen=True)
class DeficitLayout:
    """Everything in its place."""

    size: Size
    frame: Frame
    lines: list[ArmLine]
    x_ticks: list[tuple[float, str, str]]
    """Numbers, what they are in normal trainings, and in steps."""


def deficit_layout(experiment: Experiment, size: Size) -> DeficitLayout | None:
    """The layout, or None where no arm has a quality to show."""
    points = [point for point in experiment.points if not diverged(point)]
    if not points:
        return None
    frame = _frame(experiment, points, size)
    arms = [arm for arm in experiment.arms if any(point.arm == arm.name for point in points)]
    apart = _apart(points, frame, size)
    shifts = {arm.name: apart * (i - (len(arms) - 1) / 2) for i, arm in enumerate(arms)}
    marks = [_mark(point, frame, 0.0 if _no_deficit(experiment, point) else shifts[point.arm]) for point in points]
    origin = [(mark.x, mark.y) for mark in marks if _no_deficit(experiment, mark.point)]
    lines = []
    for arm in arms:
        mine = [mark for mark in marks if mark.point.arm == arm.name]
        begin = [] if arm.name == "longer" else origin
        lines.append(ArmLine(arm, mine, [*begin, *((mark.x, mark.y) for mark in mine)]))
    return DeficitLayout(size, frame, lines, _ticks(points, frame))


def name_places(layout: DeficitLayout) -> list[tuple[float, float]]:
    """Where the names of the arms begin, and the middle of their height.

    They stand to the right of the last place of their lines, clear of each other. A line may end before the others,
    where its last runs diverged or are not there yet.
    """
    box = layout.frame.box
    found: dict[str, tuple[float, float]] = {}
    for share in {line.marks[-1].point.share for line in layout.lines}:
        ending = [line for line in layout.lines if line.marks[-1].point.share == share]
        left = layout.frame.x(share) + 3.4 * layout.size.apart
        heights = spread([line.places[-1][1] for line in ending], FONT + 3, box.top + 4, box.bottom - 4)
        found |= {line.arm.name: (left, height) for line, height in zip(ending, heights, strict=True)}
    return [found[line.arm.name] for line in layout.lines]


def _no_deficit(experiment: Experiment, point: DeficitPoint) -> bool:
    return experiment.name == "length" and point.place == 0


def _frame(experiment: Experiment, points: list[DeficitPoint], size: Size) -> Frame:
    shares = [point.share for point in points]
    low, high = 0.0 if experiment.name == "length" else min(shares), max(shares)
    room = 2.5 * size.apart  # at both sides, for arms that stand side by side
    start, end = size.left, size.width - size.right
    margin = (high - low) * room / (end - start - 2 * room) if high > low else 0.5
    heights = [point.quality.mean for point in points]
    for point in points:
        if words.has_interval(point.quality):
            heights += [point.quality.low, point.quality.high]
    x = Scale(low - margin, high + margin, start, end)
    return Frame(x, Scale(*span(heights, margin=0.08), size.height - size.bottom, size.top))


def _apart(points: list[DeficitPoint], frame: Frame, size: Size) -> float:
    """How far apart arms stand: less where places are near each other, so that arms of two places never mix."""
    places = sorted({frame.x(point.share) for point in points})
    nearest = min((b - a for a, b in pairwise(places)), default=size.width)
    return min(size.apart, nearest / 4)


def _mark(point: DeficitPoint, frame: Frame, shift: float) -> Mark:
    x, y = frame.x(point.share) + shift, frame.y(point.quality.mean)
    if not words.has_interval(point.quality):
        return Mark(point, x, y, y, y)
    return Mark(point, x, y, frame.y(point.quality.high), frame.y(point.quality.low))


def _ticks(points: list[DeficitPoint], frame: Frame) -> list[tuple[float, str, str]]:
    """A tick at each place; where its numbers would run into those before, it has none."""
    ticks: list[tuple[float, str, str]] = []
    taken = -1.0
    for place, share in sorted({(point.place, point.share) for point in points}):
        steps = f"{place:,}" if ticks else f"{place:,} steps"
        reach = text_width(max(steps, f"{share:.3g}", key=len), FONT) / 2
        free = frame.x(share) - reach > taken
        ticks.append((share, f"{share:.3g}", steps) if free else (share, "", ""))
        taken = frame.x(share) + reach if free else taken
    return ticks
