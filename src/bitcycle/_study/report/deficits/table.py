"""The table of a deficit experiment: every figure of its plot, with the difference to the control."""

from __future__ import annotations

import math

from bitcycle._study.analysis import DeficitAnalysis, DeficitPoint
from bitcycle._study.report import words
from bitcycle._study.report.columns import Column, cell_of, table_of, with_drawing
from bitcycle._study.report.deficits.arms import SHOWN
from bitcycle._study.report.deficits.facts import Experiment, control_words, diverged, places_of
from bitcycle._study.report.markup import Markup, tag
from bitcycle._study.report.svg import mark


def columns(analysis: DeficitAnalysis, experiment: Experiment) -> list[Column[DeficitPoint]]:
    """The columns of the table on the page, and of the summary in Markdown."""
    places = places_of(analysis)

    def quality(point: DeficitPoint) -> str:
        return "diverged" if diverged(point) else words.fixed(point.quality.mean, places)

    def spread(point: DeficitPoint) -> str:
        return words.NONE if diverged(point) else words.interval(point.quality, places)

    def difference(point: DeficitPoint) -> str:
        return words.fixed(point.loss.difference.mean, places, signed=True) if point.loss else words.NONE

    def difference_interval(point: DeficitPoint) -> str:
        return words.interval(point.loss.difference, places, signed=True) if point.loss else words.NONE

    return [
        Column("arm", lambda p: p.arm, lambda p: p.arm, numeric=False),
        Column(f"{experiment.column} in normal trainings", lambda p: f"{p.share:.3g}", lambda p: p.share),
        Column(f"{experiment.column} in steps", lambda p: f"{p.place:,}", lambda p: p.place),
        Column(analysis.metric, quality, lambda p: p.quality.mean),
        Column("95 % interval", spread, lambda p: p.quality.low),
        Column("gain on the control", difference, lambda p: p.loss.difference.mean if p.loss else math.nan),
        Column("its 95 % interval", difference_interval, lambda p: p.loss.difference.low if p.loss else math.nan),
        Column("verdict", control_words, control_words, numeric=False),
        Column("p (Holm)", lambda p: words.p_value(_p(p)), _p),
        Column("seeds", lambda p: str(len(p.qualities)), lambda p: len(p.qualities)),
    ]


def _p(point: DeficitPoint) -> float:
    return point.loss.corrected if point.loss else math.nan


def deficit_table(analysis: DeficitAnalysis, experiment: Experiment) -> Markup:
    """The table, in a container of its own that scrolls where the page is narrow."""
    shown = columns(analysis, experiment)
    rows = (_row(experiment, point, shown) for point in experiment.points)
    return table_of(shown, rows, f"{experiment.title}: all figures, with intervals", "sortable compact")


def _row(experiment: Experiment, point: DeficitPoint, shown: list[Column[DeficitPoint]]) -> Markup:
    arm = SHOWN[point.arm]
    sign = tag("svg", mark(arm.kind, 7, 7, 4.6), viewBox="0 0 14 14", class_="chip-mark", aria_hidden="true")
    button = tag("button", arm.name, type="button", class_="pick", data_setting=arm.key, aria_pressed="false")
    cells = [tag("th", sign, button, scope="row", data_sort=arm.name)]
    compared = [other.loss for other in experiment.points if other.loss]
    for column in shown[1:]:
        content = None
        if column.head == "its 95 % interval" and point.loss:
            content = with_drawing(column.cell(point), point.loss, compared)
        cells.append(cell_of(column, point, content))
    diverged_row = " diverged" if diverged(point) else ""
    return tag("tr", *cells, class_=f"kind-{arm.kind.name}{diverged_row}", data_setting=arm.key)
