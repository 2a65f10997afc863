"""Quality against cost: error bars, groups, the Pareto front, and a line for full precision.

Full precision costs many times as much as all others and would squash them: it becomes a horizontal line with its
interval as a band. Settings of nearly equal cost would cover each other: they are drawn side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bitcycle._study import format as fmt
from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.format import cost_phrase
from bitcycle._study.report import labels
from bitcycle._study.report.style import FULL, LARGE, Kind, by_kind, kind_of
from bitcycle._support.charts.drawing import Drawing, Frame, Key, MarkShape, error_bar, line, mark, path, text
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle._support.charts.placing import Box, place_label, shortened, spread, text_width
from bitcycle._support.charts.scale import Scale, span, tick_texts

UNITS = ((1e12, "10¹² BitOps"), (1e9, "10⁹ BitOps"), (1e6, "10⁶ BitOps"), (1.0, "BitOps"))
FONT = 13


@dataclass(frozen=True)
class CostPlotSize:
    """The dimensions of a plot, in pixels."""

    width: float
    height: float
    left: float
    right: float
    radius: float
    ticks: int
    letters: int
    """The most letters of a label."""


WIDE = CostPlotSize(960, 520, left=62, right=24, radius=5.5, ticks=8, letters=22)
NARROW = CostPlotSize(380, 430, left=48, right=12, radius=4.5, ticks=4, letters=16)
TOP, BOTTOM = 64.0, 56.0


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


def cost_plot(analysis: Analysis, size: CostPlotSize) -> Drawing | None:
    """Draw the plot, or return None where no setting has both a quality and a cost."""
    drawn = labels.drawn_settings(analysis)
    full = [setting for setting in drawn if kind_of(setting) is FULL]
    settings = [setting for setting in drawn if kind_of(setting) is not FULL]
    relative = any(labels.has_cost(setting) for setting in settings)
    settings = [setting for setting in settings if labels.has_cost(setting) or not relative]
    if not settings:
        return None
    unit, unit_name = next(each for each in UNITS if max(s.bitops for s in settings) >= each[0] or each[0] == 1)
    costs = [setting.relative_cost if relative else setting.bitops / unit for setting in settings]
    low, high = span(costs, margin=0.07)
    x = Scale(max(0.0, low), high, size.left, size.width - size.right)
    frame = Frame(x, quality_scale([*settings, *full], size.height - BOTTOM, TOP))
    points = _points(settings, costs, frame, size)
    numbers = x.ticks(size.ticks)
    texts = [f"{100 * number:.0f} %" for number in numbers] if relative else tick_texts(numbers)
    x_title = f"{labels.baseline_text(analysis)} = 100 %" if relative else f"in {unit_name}"
    lines = [(setting, *_full_label(analysis, i, full, frame)) for i, setting in enumerate(full)]
    box = frame.box
    content = [
        plot_titles(analysis, shortened(f"cost of training, {x_title}", int(size.width / 7.5)), frame, size.height),
        *(text(kind.title, middle, box.top - 12, f"head {kind.class_}") for kind, middle in _heads(points, size)),
        frame.y_axis() + frame.x_axis(list(zip(numbers, texts, strict=True))),
        *(_full(analysis, *each, frame) for each in lines),
        *_front(points, frame),
        *(line(point.true_x, box.bottom - 6, point.true_x, box.bottom, "rug") for point in points),
        *_labelled(analysis, points, frame, size, [label for *_, label in lines]),
    ]
    description = f"{fmt.count(len(points), 'setting')}; the table below has the same numbers"
    title = f"{analysis.metric} against cost"
    return Drawing(size.width, size.height, title, description, join(content), key=_key(points, full))


def quality_scale(rows: Sequence[labels.Measured], start: float, end: float, seeds: bool = True) -> Scale:
    """Return a scale that holds the means and intervals, and the values of single seeds if wanted."""
    values = [value for row in rows for value in (row.quality.mean, row.quality.low, row.quality.high)]
    values += [value for row in rows for value in row.qualities.values()] if seeds else []
    return Scale(*span(values, margin=0.09), start, end)


def plot_titles(analysis: labels.AnyAnalysis, x_title: str, frame: Frame, height: float) -> Markup:
    """Return the titles of the axes, and which direction is better."""
    arrow = "↑" if analysis.higher_is_better else "↓"
    return join(
        [
            text(f"{shortened(analysis.metric)} on the test set", 0, 18, "title", "start"),
            text(f"{arrow} {labels.better_text(analysis)}", frame.box.right, 18, "hint", "end"),
            text(x_title, frame.box.right, height - 8, "title", "end"),
        ]
    )


def error_ends(row: labels.Measured, frame: Frame) -> tuple[float, float, float]:
    """Return the heights of a mean and of the ends of its error bar, which has no length without an interval."""
    quality = row.quality
    ends = (quality.high, quality.low) if fmt.has_interval(quality) else (quality.mean, quality.mean)
    return frame.y(quality.mean), frame.y(ends[0]), frame.y(ends[1])


def _points(settings: Sequence[Setting], costs: Sequence[float], frame: Frame, size: CostPlotSize) -> list[Point]:
    true = [frame.x(cost) for cost in costs]
    gap = min(4 * size.radius, (frame.x.end - frame.x.start) / len(settings))
    positions = spread(true, gap, frame.x.start + gap / 2, frame.x.end - gap / 2)
    return [
        Point(setting, kind_of(setting), x, true_x, *error_ends(setting, frame))
        for setting, x, true_x in zip(settings, positions, true, strict=True)
    ]


def _full_label(analysis: Analysis, i: int, full: Sequence[Setting], frame: Frame) -> tuple[str, Box]:
    """The text above the line of full precision, and its box."""
    name = FULL.title if len(full) == 1 else shortened(full[i].label)
    label = f"{name}: {fmt.fixed(full[i].quality.mean, labels.places_of(analysis))}"
    left = frame.x.start + 4 + i * (frame.x.end - frame.x.start) / len(full)
    y = frame.y(full[i].quality.mean)
    return label, Box(left, y - FONT - 6, left + text_width(label, FONT), y + 1)


def _full(analysis: Analysis, setting: Setting, label: str, label_box: Box, frame: Frame) -> Markup:
    box, (y, top, bottom) = frame.box, error_ends(setting, frame)
    parts = [
        tag("rect", x=box.left, y=top, width=box.right - box.left, height=bottom - top, class_="band"),
        line(box.left, y, box.right, y, "reference"),
        text(label, label_box.left, y - 6, "label", "start"),
    ]
    return tag("g", *parts, **_selectable(analysis, setting, FULL))


def _labelled(
    analysis: Analysis, points: Sequence[Point], frame: Frame, size: CostPlotSize, taken: list[Box]
) -> Iterator[Markup]:
    """The points with their labels, placed one after the other."""
    radius = size.radius
    boxes = [Box(p.x - radius, p.top - radius, p.x + radius, p.bottom + radius) for p in points]
    for i, point in enumerate(points):
        name = shortened(point.setting.label, size.letters)
        label = place_label(name, FONT, boxes[i], [*boxes[:i], *boxes[i + 1 :], *taken], frame.box)
        taken.append(label.box)
        seeds = point.setting.qualities.values() if len(point.setting.qualities) > 1 else ()
        yield tag(
            "g",
            tag("rect", x=point.x - 9, y=point.top - 9, width=18, height=point.bottom - point.top + 18, class_="hit"),
            error_bar(point.x, point.top, point.bottom),
            *(mark(MarkShape.CIRCLE, point.x + radius + 2, frame.y(seed), 1.6, "seed") for seed in seeds),
            mark(point.kind.shape, point.x, point.y, radius, "mark" if point.setting.on_front else "mark hollow"),
            text(name, label.x, label.y, "label", label.anchor),
            **_selectable(analysis, point.setting, point.kind),
        )


def _selectable(analysis: Analysis, setting: Setting, kind: Kind) -> dict[str, str]:
    return focusable(f"point {kind.class_}", labels.key_of(analysis, setting), labels.tip_lines(analysis, setting))


def focusable(class_: str, key: str, lines: Sequence[str]) -> dict[str, str]:
    """Return the attributes of a part of a drawing that has a tooltip and can be selected, also by keyboard."""
    pressed = {"tabindex": "0", "role": "button", "aria_pressed": "false", "aria_label": "; ".join(lines)}
    return {"class_": class_, **pressed, "data_setting": key, "data_tip": "\n".join(lines)}


def _front(points: Sequence[Point], frame: Frame) -> list[Markup]:
    """The Pareto front as steps: quality is constant until the next better setting is affordable."""
    corners: list[tuple[float, float]] = []
    for point in sorted((p for p in points if p.setting.on_front), key=lambda p: p.x):
        corners += [(point.x, corners[-1][1])] if corners else []
        corners.append((point.x, point.y))
    return [path([*corners, (frame.x.end, corners[-1][1])], "front")] if corners else []


def _heads(points: Sequence[Point], size: CostPlotSize) -> list[tuple[Kind, float]]:
    """The names of the groups above their centres, without overlap; baselines have labels of their own."""
    at = {point.setting.label: point.x for point in points}
    groups = by_kind([point.setting for point in points if not point.setting.baseline])
    if not groups:
        return []
    middles = [sum(at[member.label] for member in members) / len(members) for _, members in groups]
    widths = [text_width(kind.title, FONT) + 8 for kind, _ in groups]
    low, high = size.left + widths[0] / 2, size.width - size.right - widths[-1] / 2
    return [(kind, x) for (kind, _), x in zip(groups, spread(middles, widths, low, max(low, high)), strict=True)]


def interval_key(kind: Kind, several: bool, class_: str = "mark") -> tuple[Markup, str]:
    """Return a sample of a mean with its error bar, or say that there are none."""
    if not several:
        return Markup(""), "a single seed: no error bars; one seed cannot separate effect from noise"
    sample = error_bar(15, 1, 15) + mark(kind.shape, 15, 8, 4, class_)
    return tag("g", sample, class_=kind.class_), "mean and its 95 % interval"


def _key(points: Sequence[Point], full: Sequence[Setting]) -> Key:
    """What the signs of the plot mean."""
    several = any(fmt.has_interval(point.setting.quality) for point in points)
    items = [(line(1, 8, 29, 8, "front"), "Pareto front (filled marks): no setting is both cheaper and better")]
    items.append(interval_key(LARGE, several, "mark hollow"))
    if several:
        items.append((tag("g", mark(MarkShape.CIRCLE, 15, 8, 2, "seed"), class_=LARGE.class_), "one seed"))
    if full:
        ratio = full[0].relative_cost
        off_scale = f": {cost_phrase(ratio)}, off the scale" if ratio > labels.EQUAL else ""
        items.append((line(1, 8, 29, 8, "reference"), f"full precision{off_scale}"))
    if any(abs(point.x - point.true_x) > 1 for point in points):
        rug = line(11, 5, 11, 12, "rug") + line(16, 5, 16, 12, "rug")
        items.append((rug, "exact costs; settings of nearly equal cost are drawn side by side"))
    return tuple(items)
