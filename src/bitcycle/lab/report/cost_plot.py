"""Quality against cost: error bars, groups, the Pareto front, and a line for full precision.

Full precision costs many times as much as all others and would squash them: it becomes a horizontal line with its
interval as a band. Settings of nearly equal cost would cover each other: they are drawn side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bitcycle._support.charts.drawing import Drawing, Frame, Key, MarkShape, line, line_sample, mark, path, text
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle._support.charts.placing import Box, place_label, shortened, spread, text_width
from bitcycle._support.charts.scale import Scale, span, tick_texts
from bitcycle.lab import format as fmt
from bitcycle.lab.report import labels
from bitcycle.lab.report.quality_plot import Mark, PlotSize, interval_key, plot_titles, quality_scale, selectable
from bitcycle.lab.report.style import FULL, LARGE, Kind, by_kind, kind_of
from bitcycle.lab.statistics.analysis import Analysis, Setting

WIDE = PlotSize(960, 520, left=62, right=24, radius=5.5, spacing=22)
NARROW = PlotSize(380, 430, left=48, right=12, radius=4.5, spacing=18)
TOP, BOTTOM, FONT = 64.0, 56.0, 13
UNITS = ((1e12, "10¹² BitOps"), (1e9, "10⁹ BitOps"), (1e6, "10⁶ BitOps"), (1.0, "BitOps"))


def cost_plot(analysis: Analysis, size: PlotSize) -> Drawing | None:
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
    exact = [x(cost) for cost in costs]
    gap = min(size.spacing, (x.end - x.start) / len(settings))
    positions = spread(exact, gap, x.start + gap / 2, x.end - gap / 2)
    marks = [Mark.at(position, setting, frame) for position, setting in zip(positions, settings, strict=True)]
    numbers = x.ticks(4 if size.narrow else 8)
    texts = [fmt.percent(number, 0) for number in numbers] if relative else tick_texts(numbers)
    x_title = f"{labels.baseline_text(analysis)} = 100 %" if relative else f"in {unit_name}"
    references = list(_references(analysis, full, frame))
    box = frame.box
    content = [
        plot_titles(analysis, shortened(f"cost of training, {x_title}", int(size.width / 7.5)), frame, size.height),
        *(text(kind.title, middle, box.top - 12, f"head {kind.class_}") for kind, middle in _heads(marks, frame)),
        frame.y_axis() + frame.x_axis(list(zip(numbers, texts, strict=True))),
        *(reference for reference, _ in references),
        *_front(marks, frame),
        *(line(x, box.bottom - 6, x, box.bottom, "rug") for x in exact),
        *_labelled(analysis, marks, frame, size, [label for _, label in references]),
    ]
    moved = any(abs(each.x - x) > 1 for each, x in zip(marks, exact, strict=True))
    description = f"{fmt.count(len(marks), 'setting')}; the table below has the same numbers"
    title = f"{analysis.metric} against cost"
    return Drawing(size.width, size.height, title, description, join(content), key=_key(settings, full, moved))


def _references(analysis: Analysis, full: Sequence[Setting], frame: Frame) -> Iterator[tuple[Markup, Box]]:
    """The lines of full precision, each with its interval as a band and its label, and the box of the label."""
    box = frame.box
    for i, setting in enumerate(full):
        each = Mark.at(0, setting, frame)
        name = FULL.title if len(full) == 1 else shortened(setting.label)
        label = f"{name}: {fmt.fixed(setting.quality.mean, labels.places_of(analysis))}"
        left = box.left + 4 + i * (box.right - box.left) / len(full)
        drawn = tag(
            "g",
            tag(
                "rect", x=box.left, y=each.top, width=box.right - box.left, height=each.bottom - each.top, class_="band"
            ),
            frame.across(setting.quality.mean, "reference"),
            text(label, left, each.y - 6, "label", "start"),
            **_selectable(analysis, setting),
        )
        yield drawn, Box(left, each.y - FONT - 6, left + text_width(label, FONT), each.y + 1)


def _labelled(
    analysis: Analysis, marks: Sequence[Mark[Setting]], frame: Frame, size: PlotSize, taken: list[Box]
) -> Iterator[Markup]:
    """The marks with their labels, placed one after the other."""
    radius = size.radius
    boxes = [Box(each.x - radius, each.top - radius, each.x + radius, each.bottom + radius) for each in marks]
    for i, each in enumerate(marks):
        setting = each.row
        name = shortened(setting.label, 16 if size.narrow else 22)
        label = place_label(name, FONT, boxes[i], [*boxes[:i], *boxes[i + 1 :], *taken], frame.box)
        taken.append(label.box)
        seeds = setting.qualities.values() if len(setting.qualities) > 1 else ()
        yield each.draw(
            kind_of(setting),
            size,
            _selectable(analysis, setting),
            *(mark(MarkShape.CIRCLE, each.x + radius + 2, frame.y(seed), 1.6, "seed") for seed in seeds),
            text(name, label.x, label.y, "label", label.anchor),
            class_="mark" if setting.on_front else "mark hollow",
        )


def _selectable(analysis: Analysis, setting: Setting) -> dict[str, str]:
    return selectable(kind_of(setting), labels.key_of(analysis, setting), labels.tip_lines(analysis, setting))


def _front(marks: Sequence[Mark[Setting]], frame: Frame) -> list[Markup]:
    """The Pareto front as steps: quality is constant until the next better setting is affordable."""
    corners: list[tuple[float, float]] = []
    for each in sorted((each for each in marks if each.row.on_front), key=lambda each: each.x):
        corners += [(each.x, corners[-1][1])] if corners else []
        corners.append((each.x, each.y))
    return [path([*corners, (frame.x.end, corners[-1][1])], "front")] if corners else []


def _heads(marks: Sequence[Mark[Setting]], frame: Frame) -> list[tuple[Kind, float]]:
    """The names of the groups above their centres, without overlap; baselines have labels of their own."""
    at = {each.row.label: each.x for each in marks}
    groups = by_kind([each.row for each in marks if not each.row.baseline])
    if not groups:
        return []
    middles = [sum(at[member.label] for member in members) / len(members) for _, members in groups]
    widths = [text_width(kind.title, FONT) + 8 for kind, _ in groups]
    low, high = frame.box.left + widths[0] / 2, frame.box.right - widths[-1] / 2
    return [(kind, x) for (kind, _), x in zip(groups, spread(middles, widths, low, max(low, high)), strict=True)]


def _key(settings: Sequence[Setting], full: Sequence[Setting], moved: bool) -> Key:
    """What the signs of the plot mean."""
    items = [(line_sample("front"), "Pareto front (filled marks): no setting is both cheaper and better")]
    items.append(interval_key(LARGE, settings, "mark hollow"))
    if any(fmt.has_interval(setting.quality) for setting in settings):
        items.append((tag("g", mark(MarkShape.CIRCLE, 15, 8, 2, "seed"), class_=LARGE.class_), "one seed"))
    if full:
        ratio = full[0].relative_cost
        off_scale = f": {fmt.cost_phrase(ratio)}, off the scale" if ratio > labels.EQUAL else ""
        items.append((line_sample("reference"), f"full precision{off_scale}"))
    if moved:
        rug = line(11, 5, 11, 12, "rug") + line(16, 5, 16, 12, "rug")
        items.append((rug, "exact costs; settings of nearly equal cost are drawn side by side"))
    return tuple(items)
