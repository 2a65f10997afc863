"""Training curves group by group, and whatever else was measured along training."""

from __future__ import annotations

from collections.abc import Sequence

from bitcycle._study.analysis import Analysis
from bitcycle._study.report.bits import limits
from bitcycle._study.report.curve_data import Line, lines_of, logarithmic, measurements_of, window
from bitcycle._study.report.curve_plot import Axes, course_plot, strength
from bitcycle._study.report.look import KINDS, kind_of
from bitcycle._study.report.markup import Markup, tag
from bitcycle._study.report.scale import span
from bitcycle._study.report.svg import text
from bitcycle.experiments.result import RunResult

BASELINES = ("static", "full", "other")


def panels_of(lines: Sequence[Line]) -> list[tuple[str, list[Line]]]:
    """The lines by group, the baselines together."""
    titles = {name: kind.title for name, kind in KINDS.items() if name not in BASELINES}
    panels = [(title, [x for x in lines if kind_of(x.setting).name == name]) for name, title in titles.items()]
    rest = [x for x in lines if kind_of(x.setting).name in BASELINES]
    panels.append(("baselines" if all(x.setting.baseline for x in rest) else "baselines and others", rest))
    return [(title, members) for title, members in panels if members]


def training_plots(analysis: Analysis, records: Sequence[RunResult]) -> Markup:
    """The validation metric over training: a panel for each group, all on the same scale."""
    lines = lines_of(analysis, records, "validation")
    if not lines:
        return tag("p", "The records of this study hold no training curves.", class_="note")
    axes = Axes(analysis.question.steps, *window(lines))
    figures = []
    for title, members in panels_of(lines):
        behind = [line for line in lines if line not in members]
        plot = course_plot(analysis, title, f"validation {analysis.metric}", members, behind, axes, bits=True)
        figures.append(tag("figure", tag("figcaption", tag("strong", title)), plot, class_="panel"))
    return tag("div", *figures, class_="panels")


def bits_key(analysis: Analysis) -> Markup:
    """What the shades of the strips mean."""
    low, high = limits(analysis.settings)
    if low == high:
        return Markup("")
    levels = sorted({round(low + (high - low) * i / 5) for i in range(6)})
    boxes = [
        tag("rect", x=18.0 * i, y=2.0, width=17, height=12, class_="strip", fill_opacity=strength(bits, low, high))
        for i, bits in enumerate(levels)
    ]
    numbers = [text(str(bits), 18.0 * i + 8.5, 27, "tick") for i, bits in enumerate(levels)]
    width = 18 * len(levels)
    sample = tag(
        "svg", *boxes, *numbers, viewBox=f"0 0 {width} 30", width=width, class_="kind-full", aria_hidden="true"
    )
    return tag("p", tag("span", "bits, the stronger the colour the more:"), sample, class_="bits-key")


def measurement_plots(analysis: Analysis, records: Sequence[RunResult]) -> Markup:
    """A panel for each further measurement; empty if there is none."""
    figures = []
    for key in measurements_of(analysis, records):
        lines = lines_of(analysis, records, key)
        if not lines:
            continue
        by_logarithm = logarithmic(lines)
        values = [value for line in lines for _, value in line.points]
        low, high = (min(values) / 1.5, max(values) * 1.5) if by_logarithm else span(values)
        name = key.replace("_", " ")
        title = name + (", logarithmic scale" if by_logarithm else "")
        axes = Axes(analysis.question.steps, low, high, by_logarithm)
        plot = course_plot(analysis, title, name, lines, [], axes, bits=False)
        figures.append(tag("figure", tag("figcaption", tag("strong", title)), plot, class_="panel"))
    return tag("div", *figures, class_="panels") if figures else Markup("")
