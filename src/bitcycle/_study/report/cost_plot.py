"""Quality against cost: error bars, groups, the Pareto front, and a line for full precision.

Full precision costs many times as much as all others and would squash them: it becomes a horizontal line with its
interval as a band. Settings of nearly equal cost would cover each other: they are drawn side by side, in the order of
their cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.report import format as fmt
from bitcycle._study.report.findings import cost_phrase
from bitcycle._study.report.labels import (
    EQUAL,
    baseline_text,
    better_text,
    drawn_settings,
    has_cost,
    key_of,
    places_of,
    tip_lines,
)
from bitcycle._study.report.style import FULL, LARGE, Kind, by_kind, kind_of
from bitcycle._support.charts.drawing import Drawing, Frame, Shape, error_bar, line, mark, path, text
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle._support.charts.placing import Box, place_label, shortened, spread, text_width
from bitcycle._support.charts.scale import Scale, span, tick_texts


@dataclass(frozen=True)
class Size:
    """The dimensions of a plot, in pixels."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    radius: float
    ticks: int
    letters: int
    """The most letters of a label."""


WIDE = Size(960, 520, left=62, right=24, top=64, bottom=56, radius=5.5, ticks=8, letters=22)
NARROW = Size(380, 430, left=48, right=12, top=60, bottom=52, radius=4.5, ticks=4, letters=16)
FONT = 13


@dataclass(frozen=True)
class Point:
    """A setting on the plot."""

    setting: Setting
    kind: Kind
    x: float
    true_x: float
    """The position of its cost; ``x`` is as close to it as the neighbours allow."""
    y: float
    top: float
    bottom: float
    """The ends of the error bar; equal to ``y`` without one."""


def cost_plot(analysis: Analysis, size: Size) -> Drawing | None:
    """Draw the plot, or return None where no setting has both a quality and a cost."""
    settings = drawn_settings(analysis)
    full = [setting for setting in settings if kind_of(setting) is FULL]
    settings = [setting for setting in settings if kind_of(setting) is not FULL]
    relative = any(has_cost(setting) for setting in settings)
    settings = [setting for setting in settings if has_cost(setting) or not relative]
    if not settings:
        return None
    unit, unit_name = _unit(max(setting.bitops for setting in settings))
    costs = [setting.relative_cost if relative else setting.bitops / unit for setting in settings]
    frame = _frame(size, costs, [*settings, *full])
    points = _points(settings, costs, frame, size)
    numbers = frame.x.ticks(size.ticks)
    labels = [f"{100 * number:.0f} %" for number in numbers] if relative else tick_texts(numbers)
    x_title = (
        f"cost of training, {baseline_text(analysis)} = 100 %" if relative else f"cost of training, in {unit_name}"
    )
    arrow = "↑" if analysis.higher_is_better else "↓"
    lines = _full_lines(analysis, full, frame)
    box = frame.box
    content = [
        text(f"{shortened(analysis.metric)} on the test set", 0, 18, "title", "start"),
        text(f"{arrow} {better_text(analysis)}", box.right, 18, "hint", "end"),
        *(text(kind.title, middle, box.top - 12, f"head {kind.class_}") for kind, middle in _heads(points, size)),
        frame.y_axis(),
        frame.x_axis(list(zip(numbers, labels, strict=True))),
        text(shortened(x_title, int(size.width / 7.5)), box.right, size.height - 8, "title", "end"),
        text("← cheaper", box.left, size.height - 8, "hint", "start") if size is WIDE else "",
        *(_full(analysis, each, frame) for each in lines),
        *_front(points, frame),
        *(line(point.true_x, box.bottom - 6, point.true_x, box.bottom, "rug") for point in points),
        *_drawn_points(analysis, points, frame, size, [each.box for each in lines]),
    ]
    description = f"{fmt.count(len(points), 'setting')}; the table below has the same numbers"
    title = f"{analysis.metric} against cost"
    return Drawing(size.width, size.height, title, description, join(content), key=_key(points, full))


def _unit(largest: float) -> tuple[float, str]:
    for name, unit in (("10¹² BitOps", 1e12), ("10⁹ BitOps", 1e9), ("10⁶ BitOps", 1e6)):
        if largest >= unit:
            return unit, name
    return 1.0, "BitOps"


def _frame(size: Size, costs: Sequence[float], settings: Sequence[Setting]) -> Frame:
    qualities = [value for setting in settings for value in _heights(setting)]
    low, high = span(costs, margin=0.07)
    x = Scale(max(0.0, low), high, size.left, size.width - size.right)
    return Frame(x, Scale(*span(qualities, margin=0.1), size.height - size.bottom, size.top))


def _heights(setting: Setting) -> Iterator[float]:
    yield setting.quality.mean
    yield from setting.qualities.values()
    if fmt.has_interval(setting.quality):
        yield from (setting.quality.low, setting.quality.high)


def _points(settings: Sequence[Setting], costs: Sequence[float], frame: Frame, size: Size) -> list[Point]:
    true = [frame.x(cost) for cost in costs]
    gap = min(4 * size.radius, (frame.x.end - frame.x.start) / len(settings))
    positions = spread(true, gap, frame.x.start + gap / 2, frame.x.end - gap / 2)
    points = []
    for setting, x, true_x in zip(settings, positions, true, strict=True):
        quality = setting.quality
        ends = (quality.high, quality.low) if fmt.has_interval(quality) else (quality.mean, quality.mean)
        points.append(Point(setting, kind_of(setting), x, true_x, frame.y(quality.mean), *map(frame.y, ends)))
    return points


@dataclass(frozen=True)
class FullLine:
    """Full precision: a horizontal line with its text above."""

    setting: Setting
    y: float
    text: str
    left: float

    @property
    def box(self) -> Box:
        """The box of the text."""
        return Box(self.left, self.y - FONT - 6, self.left + text_width(self.text, FONT), self.y + 1)


def _full_lines(analysis: Analysis, settings: Sequence[Setting], frame: Frame) -> list[FullLine]:
    lines = []
    for i, setting in enumerate(settings):
        name = FULL.title if len(settings) == 1 else shortened(setting.label)
        label = f"{name}: {fmt.fixed(setting.quality.mean, places_of(analysis))}"
        left = frame.x.start + 4 + i * (frame.x.end - frame.x.start) / len(settings)
        lines.append(FullLine(setting, frame.y(setting.quality.mean), label, left))
    return lines


def _full(analysis: Analysis, full: FullLine, frame: Frame) -> Markup:
    box, quality = frame.box, full.setting.quality
    parts = [line(box.left, full.y, box.right, full.y, "reference")]
    parts.append(text(full.text, full.left, full.y - 6, "label", "start"))
    if fmt.has_interval(quality):
        top, bottom = frame.y(quality.high), frame.y(quality.low)
        parts.insert(0, tag("rect", x=box.left, y=top, width=box.right - box.left, height=bottom - top, class_="band"))
    return tag("g", *parts, **_selectable(analysis, full.setting, FULL))


def _drawn_points(
    analysis: Analysis, points: Sequence[Point], frame: Frame, size: Size, taken: Sequence[Box]
) -> Iterator[Markup]:
    """The points with their labels, placed one after the other."""
    radius = size.radius
    boxes = [Box(p.x - radius, p.top - radius, p.x + radius, p.bottom + radius) for p in points]
    labels: list[Box] = []
    for i, point in enumerate(points):
        name = shortened(point.setting.label, size.letters)
        label = place_label(name, FONT, boxes[i], [*boxes[:i], *boxes[i + 1 :], *labels, *taken], frame.box)
        labels.append(label.box)
        seeds = point.setting.qualities.values() if len(point.setting.qualities) > 1 else ()
        height = point.bottom - point.top + 18
        yield tag(
            "g",
            tag("rect", x=point.x - 9, y=point.top - 9, width=18, height=height, class_="hit"),
            error_bar(point.x, point.top, point.bottom),
            *(mark(Shape.CIRCLE, point.x + radius + 2, frame.y(seed), 1.6, "seed") for seed in seeds),
            mark(point.kind.shape, point.x, point.y, radius, "mark" if point.setting.on_front else "mark hollow"),
            text(name, label.x, label.y, "label", label.anchor),
            **_selectable(analysis, point.setting, point.kind),
        )


def _selectable(analysis: Analysis, setting: Setting, kind: Kind) -> dict[str, str]:
    return focusable(f"point {kind.class_}", key_of(analysis, setting), tip_lines(analysis, setting))


def focusable(class_: str, key: str, lines: Sequence[str]) -> dict[str, str]:
    """Return the attributes of a part of a drawing that has a tooltip and can be selected, also by keyboard."""
    pressed = {"tabindex": "0", "role": "button", "aria_pressed": "false", "aria_label": "; ".join(lines)}
    return {"class_": class_, **pressed, "data_setting": key, "data_tip": "\n".join(lines)}


def _front(points: Sequence[Point], frame: Frame) -> list[Markup]:
    """The Pareto front as steps: quality is constant until the next better setting is affordable."""
    corners: list[tuple[float, float]] = []
    for point in sorted((p for p in points if p.setting.on_front), key=lambda p: p.x):
        if corners:
            corners.append((point.x, corners[-1][1]))
        corners.append((point.x, point.y))
    return [path([*corners, (frame.x.end, corners[-1][1])], "front")] if corners else []


def _heads(points: Sequence[Point], size: Size) -> list[tuple[Kind, float]]:
    """The names of the groups above their centres, without overlap; baselines have labels of their own."""
    at = {point.setting.label: point.x for point in points if not point.setting.baseline}
    groups = by_kind([point.setting for point in points if not point.setting.baseline])
    if not groups:
        return []
    middles = [sum(at[member.label] for member in members) / len(members) for _, members in groups]
    widths = [text_width(kind.title, FONT) + 8 for kind, _ in groups]
    low, high = size.left + widths[0] / 2, size.width - size.right - widths[-1] / 2
    return [(kind, x) for (kind, _), x in zip(groups, spread(middles, widths, low, max(low, high)), strict=True)]


def _key(points: Sequence[Point], full: Sequence[Setting]) -> tuple[tuple[Markup, str], ...]:
    """What the signs of the plot mean."""
    items = [(line(1, 8, 29, 8, "front"), "Pareto front (filled marks): no setting is both cheaper and better")]
    if any(fmt.has_interval(point.setting.quality) for point in points):
        items += [interval_key(LARGE, "mark hollow"), (seed_key(), "one seed")]
    else:
        items.append((Markup(""), "a single seed: no error bars; one seed cannot separate effect from noise"))
    if full:
        ratio = full[0].relative_cost
        off_scale = f": {cost_phrase(ratio)}, off the scale" if ratio > EQUAL else ""
        items.append((line(1, 8, 29, 8, "reference"), f"full precision{off_scale}"))
    if any(abs(point.x - point.true_x) > 1 for point in points):
        rug = line(11, 5, 11, 12, "rug") + line(16, 5, 16, 12, "rug")
        items.append((rug, "exact costs; settings of nearly equal cost are drawn side by side"))
    return tuple(items)


def interval_key(kind: Kind, class_: str = "mark") -> tuple[Markup, str]:
    """Return a sample of a mean with its error bar."""
    sample = error_bar(15, 1, 15) + mark(kind.shape, 15, 8, 4, class_)
    return tag("g", sample, class_=kind.class_), "mean and its 95 % interval"


def seed_key() -> Markup:
    """Return a sample of the dot of a seed."""
    return tag("g", mark(Shape.CIRCLE, 15, 8, 2, "seed"), class_=LARGE.class_)
