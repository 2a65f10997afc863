"""Measurements along training as a matplotlib figure: a panel each, with a line for every length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bitcycle._study.analysis import DeficitAnalysis
from bitcycle._study.report import words
from bitcycle._study.report.deficits.courses import Trained, trained
from bitcycle._study.report.deficits.panels import Panel, drawn_in_turn, panels_of
from bitcycle._study.report.deficits.shades import LONG_CONTROL, colour
from bitcycle._study.report.markup import clean
from bitcycle._study.report.scale import Scale, tick_texts
from bitcycle.experiments.result import RunResult

COLUMNS = 2


def measurement_figure(analysis: DeficitAnalysis, records: Sequence[RunResult]) -> Any:
    """The figure, or None where nothing was measured."""
    found = trained(analysis, records)
    panels = panels_of(found.lines) if found else []
    if not found or not panels:
        return None
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows = math.ceil(len(panels) / COLUMNS)
    figure = Figure(figsize=(9.6, 2.2 * rows + 0.7), layout="constrained")
    drawn = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for axes, panel in zip(drawn, panels, strict=False):
        _draw(axes, panel)
    for axes in drawn[len(panels) :]:
        axes.set_visible(False)
    signs = [Line2D([], [], **_style(each)) for each in found.lines]
    figure.legend(
        signs,
        [each.short for each in found.lines],
        loc="outside lower center",
        title=found.experiment.axis,
        title_fontsize=8,
        fontsize=8,
        ncols=min(8, len(found.lines)),
        frameon=False,
    )
    return figure


def _style(each: Trained) -> dict[str, Any]:
    return {"color": colour(each.shade), "linestyle": (0, (5, 2)) if each.shade == LONG_CONTROL else "-"}


def _draw(axes: Any, panel: Panel) -> None:
    if panel.logarithmic:
        axes.set_yscale("log")
    for each, points in drawn_in_turn(panel):
        marker = "o" if len(points) < 4 else ""
        axes.plot(*zip(*points, strict=True), linewidth=1.3, marker=marker, markersize=4, **_style(each))
        ended = [point for point in points if each.ends and point[0] >= each.ends]
        if ended:
            axes.plot(*ended[0], "o", markersize=4, color=colour(each.shade))
    if panel.threshold is not None:
        axes.axhline(panel.threshold, color="#1c1e21", linewidth=0.8, linestyle=(0, (2, 3)))
    axes.set_xlim(0, panel.steps)
    axes.set_ylim(panel.low, panel.high)
    numbers = Scale(panel.low, panel.high, 0, 1, panel.logarithmic).ticks(4)
    axes.set_yticks(numbers, tick_texts(numbers))
    axes.set_yticks([], minor=True)
    steps = Scale(0, panel.steps, 0, 1).ticks(4)
    first, *others = tick_texts(steps)
    axes.set_xticks(steps, [f"step {first}", *others])
    axes.grid(axis="y")
    axes.set_title(clean(words.shortened(panel.title, 56)), loc="left", fontsize=9, weight="bold")
