"""Training curves as a matplotlib figure: a panel for each group, their bits as strips underneath."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.report import words
from bitcycle._study.report.bits import limits, stretches
from bitcycle._study.report.courses import panels_of
from bitcycle._study.report.curve_data import Line, lines_of, window
from bitcycle._study.report.curve_plot import strength
from bitcycle._study.report.facts import better_words
from bitcycle._study.report.look import kind_of
from bitcycle._study.report.markup import clean
from bitcycle._study.report.placing import spread
from bitcycle.experiments.result import RunResult

DASHES: list[Any] = ["-", (0, (4, 2)), (0, (1, 1)), (0, (5, 2, 1, 2)), (0, (7, 2)), (0, (3, 1, 1, 1, 1, 1))]
CURVES, STRIP = 1.9, 0.14  # inches of height


def course_figure(analysis: Analysis, records: Sequence[RunResult]) -> Any:
    """The figure, or None where there are no curves."""
    lines = lines_of(analysis, records, "validation")
    if not lines:
        return None
    from matplotlib.figure import Figure

    panels = panels_of(lines)
    rows = [panels[i : i + 2] for i in range(0, len(panels), 2)]
    strips = [max(len(members) for _, members in row) for row in rows]
    heights = [height for count in strips for height in (CURVES, STRIP * count)]
    figure = Figure(figsize=(9.6, sum(heights) + 0.8 * len(rows) + 0.4), layout="constrained")
    figure.suptitle(clean(f"validation {analysis.metric}, mean over seeds, {better_words(analysis)}"), weight="bold")
    grid = figure.add_gridspec(len(heights), 2, height_ratios=heights)
    low, high = window(lines)
    for i, row in enumerate(rows):
        for column, (title, members) in enumerate(row):
            axes = figure.add_subplot(grid[2 * i, column])
            axes.set_ylim(low, high)
            behind = [line for line in lines if line not in members]
            _curves(axes, title, members, behind, analysis.question.steps)
            under = figure.add_subplot(grid[2 * i + 1, column], sharex=axes)
            _strips(under, [line.setting for line in members], analysis, strips[i])
    return figure


def _curves(axes: Any, title: str, lines: Sequence[Line], behind: Sequence[Line], steps: int) -> None:
    for line in behind:
        axes.plot(*zip(*line.points, strict=True), color="#dedfdb", linewidth=0.9)
    low, high = axes.get_ylim()
    ends = [min(high, max(low, line.points[-1][1])) for line in lines]
    places = spread(ends, (high - low) / 16, low, high)
    for i, (line, place) in enumerate(zip(lines, places, strict=True)):
        colour = kind_of(line.setting).colour
        axes.plot(*zip(*line.points, strict=True), color=colour, linewidth=1.4, linestyle=DASHES[i % len(DASHES)])
        name = clean(words.shortened(line.setting.label))
        axes.annotate(name, (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=8, color="#1c1e21")
    axes.set_xlim(0, steps)
    axes.set_title(title, loc="left", fontsize=9, weight="bold")
    axes.tick_params(labelbottom=True)
    axes.locator_params(axis="x", nbins=5)
    axes.grid(axis="y")


def _strips(axes: Any, settings: Sequence[Setting], analysis: Analysis, rows: int) -> None:
    from matplotlib.colors import to_rgba

    low, high = limits(analysis.settings)
    for row, setting in enumerate(settings):
        steps, known = analysis.question.steps, stretches(setting)
        shades = [to_rgba(kind_of(setting).colour, strength(bits, low, high)) for *_, bits in known]
        places = [(start * steps, (end - start) * steps) for start, end, _ in known]
        axes.broken_barh(places, (row - 0.375, 0.75), facecolors=shades, linewidth=0, clip_on=False)
        name = clean(words.shortened(setting.label))
        axes.annotate(name, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=7, color="#5b6066")
    axes.set_ylim(rows - 0.5, -0.5)
    axes.axis("off")
    axes.annotate("bits ", (0, 0), xycoords=("axes fraction", "data"), va="center", ha="right", fontsize=8)
