"""All points of deficit experiments as a table for programs: exact numbers, nothing rounded."""

from __future__ import annotations

from collections.abc import Sequence

from bitcycle._study.analysis import DeficitAnalysis, DeficitPoint
from bitcycle._study.report.deficits.facts import Experiment, experiments_of
from bitcycle._study.report.exact_figures import FIGURES, csv_of, figures

HEADS = [
    "title",
    "task",
    "metric",
    "higher_is_better",
    "q_min",
    "q_max",
    "normal_steps",
    "window_steps",
    "experiment",
    "arm",
    "place_steps",
    "place",
    *FIGURES,
]


def deficits_csv(analyses: Sequence[DeficitAnalysis]) -> str:
    """A line for each point of each experiment; ``place`` is its length or position in normal trainings.

    >>> deficits_csv([]).startswith("title,task,metric")
    True
    """
    lines = (
        _line(analysis, experiment, point)
        for analysis in analyses
        for experiment in experiments_of(analysis)
        for point in experiment.points
    )
    return csv_of(HEADS, lines)


def _line(analysis: DeficitAnalysis, experiment: Experiment, point: DeficitPoint) -> list[object]:
    return [
        analysis.title,
        analysis.task,
        analysis.metric,
        analysis.higher_is_better,
        *analysis.bits,
        analysis.steps,
        analysis.window,
        experiment.name,
        point.arm,
        point.place,
        point.share,
        *figures(point.qualities, point.quality, point.loss),
    ]
