"""Final quality against the length or the position of a deficit as a matplotlib figure, laid out as on the page."""

from __future__ import annotations

from typing import Any

from bitcycle._study.analysis import DeficitAnalysis
from bitcycle._study.report import words
from bitcycle._study.report.deficits.facts import Experiment
from bitcycle._study.report.deficits.layout import WIDE, ArmLine, DeficitLayout, deficit_layout, name_places
from bitcycle._study.report.facts import better_words
from bitcycle._study.report.markup import clean
from bitcycle._study.report.scale import tick_texts

INCH = 100  # pixels of the layout


def deficit_figure(analysis: DeficitAnalysis, experiment: Experiment) -> Any:
    """The figure, or None where there is nothing to show."""
    layout = deficit_layout(experiment, WIDE)
    if layout is None:
        return None
    from matplotlib.figure import Figure

    size, frame = layout.size, layout.frame
    box = frame.box
    figure = Figure(figsize=(size.width / INCH, size.height / INCH))
    place = (box.left / size.width, 1 - box.bottom / size.height)
    axes = figure.add_axes((*place, (box.right - box.left) / size.width, (box.bottom - box.top) / size.height))
    axes.set_xlim(frame.x.low, frame.x.high)
    axes.set_ylim(frame.y.low, frame.y.high)
    heights = frame.y.ticks()
    axes.set_yticks(heights, tick_texts(heights))
    axes.set_xticks([tick[0] for tick in layout.x_ticks], [f"{share}\n{steps}" for _, share, steps in layout.x_ticks])
    axes.grid(axis="y")
    for arm_line, name in zip(layout.lines, name_places(layout), strict=True):
        _arm(axes, layout, arm_line, name)
    _words(figure, analysis, experiment, layout)
    return figure


def _arm(axes: Any, layout: DeficitLayout, arm_line: ArmLine, name: tuple[float, float]) -> None:
    x, y = layout.frame.x, layout.frame.y
    arm = arm_line.arm
    colour = arm.kind.colour
    numbers = [(x.number(left), y.number(top)) for left, top in arm_line.places]
    axes.plot(*zip(*numbers, strict=True), color=colour, linestyle=arm.linestyle, linewidth=1.6)
    for mark in arm_line.marks:
        quality = mark.point.quality
        at = x.number(mark.x)
        if words.has_interval(quality):
            reach = [[max(0.0, quality.mean - quality.low)], [max(0.0, quality.high - quality.mean)]]
            axes.errorbar([at], [quality.mean], reach, color=colour, capsize=2.5, linewidth=1.2)
        axes.plot([at], [quality.mean], arm.kind.marker, color=colour, markersize=7, zorder=4)
    end_x, end_y = arm_line.places[-1]
    at, height = x.number(name[0]), y.number(name[1])
    leader = [x.number(end_x + layout.size.radius + 3), x.number(name[0] - 4)], [y.number(end_y), height]
    axes.plot(*leader, color=colour, linewidth=0.7, clip_on=False)
    axes.text(at, height, arm.title, va="center", weight="bold", color="#1c1e21")


def _words(figure: Any, analysis: DeficitAnalysis, experiment: Experiment, layout: DeficitLayout) -> None:
    size, box = layout.size, layout.frame.box

    def write(text: str, x: float, y: float, ha: str, **style: Any) -> None:
        figure.text(x / size.width, 1 - y / size.height, clean(text), ha=ha, va="baseline", **style)

    metric = words.shortened(analysis.metric)
    write(f"{metric} on the test part, {better_words(analysis)}", box.left, 18, "left", weight="bold")
    low, high = analysis.bits
    write(f"{low} instead of {high} bits", box.right, 18, "right", color="#5b6066")
    write(experiment.axis, box.right, size.height - 8, "right", weight="bold")
    several = any(words.has_interval(point.quality) for point in experiment.points)
    meaning = "means with 95 % intervals" if several else "a single seed: no intervals"
    write(meaning, box.left, size.height - 8, "left", color="#5b6066")
