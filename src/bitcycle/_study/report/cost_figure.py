"""Quality against cost as a matplotlib figure, in the layout of the page's plot."""

from __future__ import annotations

from typing import Any

from bitcycle._study.analysis import Analysis
from bitcycle._study.report import words
from bitcycle._study.report.cost_layout import WIDE, CostLayout, FullLine, Point, cost_layout
from bitcycle._study.report.facts import better_words
from bitcycle._study.report.look import KINDS
from bitcycle._study.report.markup import clean
from bitcycle._study.report.scale import tick_texts

INCH = 100  # pixels of the layout


def cost_figure(analysis: Analysis) -> Any:
    """The figure, or None where there is nothing to show."""
    layout = cost_layout(analysis, WIDE)
    if layout is None:
        return None
    from matplotlib.figure import Figure

    size, frame = layout.size, layout.frame
    figure = Figure(figsize=(size.width / INCH, size.height / INCH))
    box = frame.box
    place = (box.left / size.width, 1 - box.bottom / size.height)
    axes = figure.add_axes((*place, (box.right - box.left) / size.width, (box.bottom - box.top) / size.height))
    axes.set_xlim(frame.x.low, frame.x.high)
    axes.set_ylim(frame.y.low, frame.y.high)
    heights = frame.y.ticks()
    axes.set_yticks(heights, tick_texts(heights))
    if layout.x_ticks:
        axes.set_xticks(*zip(*layout.x_ticks, strict=True))
    axes.grid(axis="y")
    for full in layout.full:
        _full(axes, full, layout)
    if layout.front:
        axes.plot(*_numbers(layout, layout.front), color="#1c1e21", linewidth=0.9, linestyle=(0, (5, 4)), alpha=0.75)
    for point in layout.points:
        _point(axes, layout, point)
    _words(figure, analysis, layout)
    return figure


def _numbers(layout: CostLayout, places: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Places in pixels, as numbers on the two axes."""
    x, y = layout.frame.x, layout.frame.y
    return [x.number(left) for left, _ in places], [y.number(top) for _, top in places]


def _full(axes: Any, full: FullLine, layout: CostLayout) -> None:
    quality = full.setting.quality
    colour = KINDS["full"].colour
    if words.has_interval(quality):
        axes.axhspan(quality.low, quality.high, color=colour, alpha=0.13, linewidth=0)
    axes.axhline(quality.mean, color=colour, linewidth=1.2)
    where = (layout.frame.x.number(full.words_x), quality.mean)
    axes.annotate(clean(full.words), where, (0, 3), textcoords="offset points", weight="bold", color="#1c1e21")


def _point(axes: Any, layout: CostLayout, point: Point) -> None:
    from matplotlib.patheffects import withStroke

    x, y = layout.frame.x.number(point.x), point.setting.quality.mean
    colour = point.kind.colour
    if words.has_interval(point.setting.quality):
        low, high = point.setting.quality.low, point.setting.quality.high
        axes.errorbar([x], [y], [[max(0.0, y - low)], [max(0.0, high - y)]], color=colour, capsize=2.5, linewidth=1.2)
    if len(point.setting.qualities) > 1:
        seeds = list(point.setting.qualities.values())
        beside = layout.frame.x.number(point.x + layout.size.radius + 2)
        axes.plot([beside] * len(seeds), seeds, ".", color=colour, markersize=3, alpha=0.55, markeredgewidth=0)
    inside = colour if point.setting.on_front else "white"
    axes.plot([x], [y], point.kind.marker, color=colour, markerfacecolor=inside, markersize=7, zorder=4)
    if point.label:
        [left], [height] = _numbers(layout, [(point.label.x, point.label.y)])
        name = clean(words.shortened(point.setting.label, layout.size.letters))
        ha = {"start": "left", "middle": "center", "end": "right"}[point.label.anchor]
        label = axes.text(left, height, name, ha=ha, va="baseline", weight="bold", color="#1c1e21", zorder=5)
        label.set_path_effects([withStroke(linewidth=2.5, foreground="white")])  # legible where it crosses a line


def _words(figure: Any, analysis: Analysis, layout: CostLayout) -> None:
    """Titles, heads of the groups and what the signs mean."""
    size, box = layout.size, layout.frame.box

    def write(text: str, x: float, y: float, ha: str, **style: Any) -> None:
        figure.text(x / size.width, 1 - y / size.height, clean(text), ha=ha, va="baseline", **style)

    write(f"{layout.y_title}, {better_words(analysis)}", box.left, 18, "left", weight="bold")
    write("filled marks and dashes: the Pareto front", box.right, 18, "right", color="#5b6066")
    for kind, middle in layout.groups:
        write(kind.title, middle, box.top - 12, "center", color="#5b6066", weight="bold")
    write(layout.x_title, box.right, size.height - 8, "right", weight="bold")
    several = any(words.has_interval(point.setting.quality) for point in layout.points)
    meaning = "means with 95 % intervals; small dots are seeds" if several else "a single seed: no intervals"
    write(meaning, box.left, size.height - 8, "left", color="#5b6066")
