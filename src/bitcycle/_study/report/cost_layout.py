"""Where everything stands in the plot of quality against cost; drawn as SVG by the page and by matplotlib as a figure.

Full precision costs many times as much as all others and would squash them: it becomes a line across, with its interval
as a band. Settings of nearly equal cost would cover each other: they stand side by side, in the order of their cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.report import words
from bitcycle._study.report.facts import baseline_words, has_cost, places_of, shown
from bitcycle._study.report.look import Kind, kind_of, kinds_of
from bitcycle._study.report.placing import Box, Label, place_label, spread, text_width
from bitcycle._study.report.scale import Scale, span, tick_texts
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
    font: float
    radius: float
    ticks: int
    letters: int
    """The most letters of a label."""


WIDE = Size(960, 520, left=62, right=24, top=64, bottom=56, font=13, radius=5.5, ticks=8, letters=22)
NARROW = Size(380, 430, left=48, right=12, top=60, bottom=52, font=12.5, radius=4.5, ticks=4, letters=16)


@dataclass(frozen=True)
class Point:
    """A setting's place."""

    setting: Setting
    kind: Kind
    x: float
    true_x: float
    """Where its cost is; ``x`` is as near to it as the neighbours allow."""
    y: float
    top: float
    bottom: float
    """The ends of the error bar; ``y`` itself without one."""
    label: Label | None = None


@dataclass(frozen=True)
class FullLine:
    """Full precision: a line across with its words above."""

    setting: Setting
    y: float
    words: str
    words_x: float


@dataclass(frozen=True)
class CostLayout:
    """Everything in its place."""

    size: Size
    frame: Frame
    points: list[Point]
    full: list[FullLine]
    front: list[tuple[float, float]]
    groups: list[tuple[Kind, float]]
    """The heads over the groups, with the middle of each."""
    x_ticks: list[tuple[float, str]]
    x_title: str
    y_title: str
    moved: bool
    """Whether some setting does not stand exactly at its cost."""


def cost_layout(analysis: Analysis, size: Size) -> CostLayout | None:
    """The layout, or None where no setting has a quality and a cost to show."""
    settings = [setting for setting in shown(analysis) if kind_of(setting).name != "full"]
    full = [setting for setting in shown(analysis) if kind_of(setting).name == "full"]
    relative = any(has_cost(setting) for setting in settings)
    settings = [setting for setting in settings if has_cost(setting) or not relative]
    if not settings:
        return None
    unit, unit_words = (1.0, "") if relative else _unit(max(setting.bitops for setting in settings))
    costs = [setting.relative_cost if relative else setting.bitops / unit for setting in settings]
    frame = _frame(size, costs, [*settings, *full])
    points = _points(settings, costs, frame, size)
    lines = _full_lines(analysis, full, frame)
    numbers = frame.x.ticks(size.ticks)
    texts = [f"{100 * number:.0f} %" for number in numbers] if relative else tick_texts(numbers)
    return CostLayout(
        size,
        frame,
        _labelled(points, frame, size, [_words_box(line, size) for line in lines]),
        lines,
        _front(points, frame),
        _heads(points, size),
        list(zip(numbers, texts, strict=True)),
        f"cost of training, {baseline_words(analysis)} = 100 %" if relative else f"cost of training, {unit_words}",
        f"{words.shortened(analysis.metric)} on the test part",
        any(abs(point.x - point.true_x) > 1 for point in points),
    )


def _unit(largest: float) -> tuple[float, str]:
    for name, unit in (("10¹² BitOps", 1e12), ("10⁹ BitOps", 1e9), ("10⁶ BitOps", 1e6)):
        if largest >= unit:
            return unit, f"in {name}"
    return 1.0, "in BitOps"


def _frame(size: Size, costs: list[float], settings: list[Setting]) -> Frame:
    qualities = [value for setting in settings for value in _heights(setting)]
    low, high = span(costs, margin=0.07)
    x = Scale(max(0.0, low), high, size.left, size.width - size.right)
    return Frame(x, Scale(*span(qualities, margin=0.1), size.height - size.bottom, size.top))


def _heights(setting: Setting) -> Iterator[float]:
    yield setting.quality.mean
    yield from setting.qualities.values()
    if words.has_interval(setting.quality):
        yield from (setting.quality.low, setting.quality.high)


def _points(settings: list[Setting], costs: list[float], frame: Frame, size: Size) -> list[Point]:
    true = [frame.x(cost) for cost in costs]
    gap = 4 * size.radius
    places = spread(true, gap, frame.x.start + gap / 2, frame.x.end - gap / 2)
    points = []
    for setting, x, true_x in zip(settings, places, true, strict=True):
        y = frame.y(setting.quality.mean)
        ends = (setting.quality.high, setting.quality.low) if words.has_interval(setting.quality) else ()
        top, bottom = (frame.y(value) for value in ends) if ends else (y, y)
        points.append(Point(setting, kind_of(setting), x, true_x, y, top, bottom))
    return points


def _full_lines(analysis: Analysis, settings: list[Setting], frame: Frame) -> list[FullLine]:
    lines = []
    for i, setting in enumerate(settings):
        name = "full precision" if len(settings) == 1 else words.shortened(setting.label)
        said = f"{name}: {words.fixed(setting.quality.mean, places_of(analysis))}"
        left = frame.x.start + 4 + i * (frame.x.end - frame.x.start) / len(settings)
        lines.append(FullLine(setting, frame.y(setting.quality.mean), said, left))
    return lines


def _words_box(line: FullLine, size: Size) -> Box:
    return Box(line.words_x, line.y - size.font - 6, line.words_x + text_width(line.words, size.font), line.y + 1)


def _labelled(points: list[Point], frame: Frame, size: Size, taken: list[Box]) -> list[Point]:
    """The points with their labels, placed one after the other."""
    boxes = [Box(p.x - size.radius, p.top - size.radius, p.x + size.radius, p.bottom + size.radius) for p in points]
    labels: list[Box] = []
    labelled = []
    for i, point in enumerate(points):
        others = boxes[:i] + boxes[i + 1 :] + labels + taken
        label = place_label(words.shortened(point.setting.label, size.letters), size.font, boxes[i], others, frame.box)
        labels.append(label.box)
        labelled.append(Point(**{**vars(point), "label": label}))
    return labelled


def _front(points: list[Point], frame: Frame) -> list[tuple[float, float]]:
    """The corners of the front: quality stays what it was until the next better setting can be paid for."""
    corners: list[tuple[float, float]] = []
    for point in sorted((p for p in points if p.setting.on_front), key=lambda p: p.x):
        if corners:
            corners.append((point.x, corners[-1][1]))
        corners.append((point.x, point.y))
    return [*corners, (frame.x.end, corners[-1][1])] if corners else []


def _heads(points: list[Point], size: Size) -> list[tuple[Kind, float]]:
    """The names of the groups over their middle, clear of one another; baselines have labels of their own."""
    heads = []
    for kind, members in kinds_of([point.setting for point in points if not point.setting.baseline]):
        places = [point.x for point in points if any(point.setting is member for member in members)]
        heads.append((kind, sum(places) / len(places)))
    if not heads:
        return []
    widths = [text_width(kind.title, size.font) + 8 for kind, _ in heads]
    low, high = size.left + widths[0] / 2, size.width - size.right - widths[-1] / 2
    middles = spread([middle for _, middle in heads], widths, low, max(low, high))
    return [(kind, middle) for (kind, _), middle in zip(heads, middles, strict=True)]
