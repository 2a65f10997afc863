"""All points of deficit experiments as a table for programs: exact numbers, nothing rounded."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from bitcycle.study.analysis import DeficitAnalysis, DeficitPoint
from bitcycle.study.report.deficits.facts import Experiment, diverged, experiments_of

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
    "seeds",
    "mean",
    "standard_error",
    "low",
    "high",
    "diverged",
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "p_corrected",
    "verdict",
]


def deficits_csv(analyses: Sequence[DeficitAnalysis]) -> str:
    """A line for each point of each experiment; ``place`` is its length or position in normal trainings.

    >>> deficits_csv([]).startswith("title,task,metric")
    True
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADS)
    for analysis in analyses:
        for experiment in experiments_of(analysis):
            writer.writerows(_line(analysis, experiment, point) for point in experiment.points)
    return out.getvalue()


def _line(analysis: DeficitAnalysis, experiment: Experiment, point: DeficitPoint) -> list[object]:
    loss = point.loss
    compared: list[object] = [""] * 6
    if loss:
        difference = loss.difference
        compared = [difference.mean, difference.low, difference.high, loss.p, loss.corrected, loss.verdict]
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
        len(point.qualities),
        point.quality.mean,
        point.quality.error,
        point.quality.low,
        point.quality.high,
        diverged(point),
        *compared,
    ]
