"""Quality against cost, as SVG: error bars, groups, the Pareto front, and a line for full precision."""

from __future__ import annotations

from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.report import words
from bitcycle._study.report.cost_layout import NARROW, WIDE, CostLayout, FullLine, Point, cost_layout
from bitcycle._study.report.facts import better_words, key_of, tip_lines
from bitcycle._study.report.look import KINDS
from bitcycle._study.report.markup import Markup, join, tag
from bitcycle._study.report.svg import drawing, line, mark, path, text, x_axis, y_axis


def cost_plot(analysis: Analysis) -> Markup:
    """The plot twice, for wide and for narrow pages; the style sheet shows one of them."""
    layouts = [(cost_layout(analysis, size), name) for size, name in ((WIDE, "wide"), (NARROW, "narrow"))]
    drawn = [_draw(analysis, layout, name) for layout, name in layouts if layout]
    return join(drawn) if drawn else tag("p", "No setting has both a quality and a cost to show.", class_="note")


def _draw(analysis: Analysis, layout: CostLayout, name: str) -> Markup:
    size, frame = layout.size, layout.frame
    box = frame.box
    arrow = "↑" if analysis.higher_is_better else "↓"
    return drawing(
        size.width,
        size.height,
        f"{analysis.metric} against cost",
        f"{words.count(len(layout.points), 'setting')}; the table below has the same figures",
        text(layout.y_title, 0, 18, "title", "start"),
        text(f"{arrow} {better_words(analysis)}", box.right, 18, "hint", "end"),
        join(text(kind.title, middle, box.top - 12, f"head kind-{kind.name}") for kind, middle in layout.groups),
        y_axis(frame),
        x_axis(frame, *zip(*layout.x_ticks, strict=True)) if layout.x_ticks else "",
        text(layout.x_title, box.right, size.height - 8, "title", "end"),
        text("← cheaper", box.left, size.height - 8, "hint", "start"),
        join(_full(analysis, full, layout) for full in layout.full),
        path(layout.front, "front") if layout.front else "",
        join(line(point.true_x, box.bottom - 6, point.true_x, box.bottom, "rug") for point in layout.points),
        join(_point(analysis, point, layout) for point in layout.points),
        class_=f"plot cost-plot {name}",
        role="group",
    )


def _full(analysis: Analysis, full: FullLine, layout: CostLayout) -> Markup:
    frame, quality = layout.frame, full.setting.quality
    box = frame.box
    parts = []
    if words.has_interval(quality):
        top, bottom = frame.y(quality.high), frame.y(quality.low)
        parts.append(tag("rect", x=box.left, y=top, width=box.right - box.left, height=bottom - top, class_="band"))
    parts.append(line(box.left, full.y, box.right, full.y, "reference"))
    parts.append(text(full.words, full.words_x, full.y - 6, "label", "start"))
    return tag("g", *parts, **_selectable(analysis, full.setting, "point kind-full"))


def _point(analysis: Analysis, point: Point, layout: CostLayout) -> Markup:
    radius = layout.size.radius
    parts = [
        tag("rect", x=point.x - 9, y=point.top - 9, width=18, height=point.bottom - point.top + 18, class_="hit"),
    ]
    if point.top != point.bottom:
        parts.append(line(point.x, point.top, point.x, point.bottom, "bar"))
        parts += [line(point.x - 3.5, end, point.x + 3.5, end, "bar") for end in (point.top, point.bottom)]
    if len(point.setting.qualities) > 1:
        ys = (layout.frame.y(value) for value in point.setting.qualities.values())
        parts += [tag("circle", cx=point.x + radius + 2, cy=y, r=1.6, class_="seed") for y in ys]
    filled = "mark" if point.setting.on_front else "mark hollow"
    parts.append(mark(point.kind, point.x, point.y, radius, filled))
    if point.label:
        name = words.shortened(point.setting.label, layout.size.letters)
        parts.append(text(name, point.label.x, point.label.y, "label", point.label.anchor))
    return tag("g", *parts, **_selectable(analysis, point.setting, f"point kind-{point.kind.name}"))


def _selectable(analysis: Analysis, setting: Setting, class_: str) -> dict[str, str]:
    lines = tip_lines(analysis, setting)
    return {
        "class_": class_,
        "tabindex": "0",
        "role": "button",
        "aria_pressed": "false",
        "aria_label": "; ".join(lines),
        "data_setting": key_of(analysis, setting),
        "data_tip": "\n".join(lines),
    }


def cost_key(analysis: Analysis) -> Markup:
    """What the signs of the plot mean."""
    layout = cost_layout(analysis, WIDE)
    if layout is None:
        return Markup("")
    several = any(words.has_interval(point.setting.quality) for point in layout.points)
    items = [
        _key_item(line(1, 8, 29, 8, "front"), "Pareto front: nothing is both cheaper and better (filled marks)"),
    ]
    if several:
        bar = join([line(15, 1, 15, 15, "bar"), line(11, 1, 19, 1, "bar"), line(11, 15, 19, 15, "bar")])
        items.append(_key_item(bar + mark(KINDS["large"], 15, 8, 4, "mark hollow"), "mean and its 95 % interval"))
        items.append(_key_item(tag("circle", cx=15.0, cy=8.0, r=2.0, class_="seed"), "one seed"))
    else:
        items.append(tag("li", "A single seed: there are no error bars, and chance is not told from merit."))
    if layout.full:
        ratio = layout.full[0].setting.relative_cost
        dear = f" costs {ratio:.1f} times as much: a line, being off the scale" if ratio > 1.005 else ", as a line"
        items.append(_key_item(line(1, 8, 29, 8, "reference"), "full precision" + dear))
    if layout.moved:
        items.append(
            _key_item(
                line(11, 5, 11, 12, "rug") + line(16, 5, 16, 12, "rug"),
                "exact costs; settings of nearly equal cost stand side by side",
            )
        )
    return tag("ul", *items, class_="key")


def _key_item(sign: str, meaning: str) -> Markup:
    sample = tag("svg", sign, viewBox="0 0 30 16", class_="sample kind-large", aria_hidden="true")
    return tag("li", sample, tag("span", meaning))
