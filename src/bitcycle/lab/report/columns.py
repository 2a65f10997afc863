"""The columns of all tables of a report, and the CSV files with exact numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bitcycle.lab import format as fmt
from bitcycle.lab.format import short
from bitcycle.lab.report import labels
from bitcycle.lab.report.labels import FULL, kind_of
from bitcycle.lab.report.rendering import Column, csv_text
from bitcycle.lab.report.section import FailedRun
from bitcycle.lab.runs.run_config import OF_RECIPE, OPERAND_OVERRIDES, Condition, operands_used
from bitcycle.lab.statistics.analysis import (
    Analysis,
    Comparison,
    Correlation,
    DeficitAnalysis,
    DeficitPoint,
    Estimate,
    Setting,
)
from bitcycle.lab.statistics.settings import gradient_bits

Pair = tuple[str, str, Comparison]
NOT_COMPARED = Estimate(math.nan, math.nan, math.nan, math.nan)

QUALITY_HEADS = (
    *("seeds", "mean", "standard_error", "low", "high", "diverged"),
    *("difference", "difference_low", "difference_high", "p", "p_corrected", "verdict"),
)
SETTING_HEADS = (
    *("title", "task", "metric", "higher_is_better", "label", "schedule", "group", "baseline", *QUALITY_HEADS),
    *("bitops", "relative_cost", "mean_bits", "early_bits", "seconds", "on_front"),
    *(*OPERAND_OVERRIDES, *OF_RECIPE, "gradients"),
)
DEFICIT_HEADS = (
    *("title", "task", "metric", "higher_is_better", "q_min", "q_max", "normal_steps", "window_steps"),
    *("experiment", "arm", "place_steps", "place", *QUALITY_HEADS),
)


def setting_columns(analysis: Analysis) -> list[Column[Setting]]:
    """Return the columns of the table of settings."""
    return [
        Column("schedule", lambda s: s.label, numeric=False),
        *operand_columns(analysis),
        Column("saving group", lambda s: kind_of(s).name, numeric=False),
        Column("saving", labels.saving_text, lambda s: 1 - s.relative_cost),
        *_quality_columns(analysis, f"gain over {analysis.baseline or 'baseline'}"),
        Column("Pareto front", lambda s: "yes" if s.on_front else "no", numeric=False),
        Column("mean bits", lambda s: fmt.fixed(s.mean_bits, 2), lambda s: s.mean_bits),
        Column("bits in the first tenth", lambda s: fmt.fixed(s.early_bits, 2), lambda s: s.early_bits),
        Column("cost in BitOps", lambda s: short(round(s.bitops)), lambda s: s.bitops),
        Column("time per run", lambda s: fmt.duration(s.seconds), lambda s: s.seconds),
    ]


def operand_columns(analysis: Analysis) -> list[Column[Setting]]:
    """Return the columns of operands apart from the schedule, of gradients and of grids, where settings use them."""

    def column(name: str) -> Column[Setting]:
        return Column(name, lambda s: s.condition.operands[name], numeric=False)

    columns = [column(name) for name in operands_used(s.condition for s in analysis.settings)]
    if len({_gradients(s.condition) for s in analysis.settings if kind_of(s) is not FULL}) > 1:
        columns.append(Column("gradients", lambda s: _gradients(s.condition), numeric=False))
    return columns


def _gradients(condition: Condition) -> str:
    """Return the bits of gradients; as they are written in the run if its schedules cannot be read."""
    try:
        bits = gradient_bits(condition)
    except ValueError:
        bits = condition.backward_bits
    return "full" if bits is None else str(bits)


def deficit_columns(analysis: DeficitAnalysis, experiment: labels.ExperimentView) -> list[Column[DeficitPoint]]:
    """Return the columns of the table of an experiment."""
    return [
        Column("arm", lambda p: p.arm, numeric=False),
        Column(f"{experiment.column} in normal runs", lambda p: fmt.number(p.share), lambda p: p.share),
        Column(f"{experiment.column} in steps", lambda p: f"{p.place:,}", lambda p: p.place),
        *_quality_columns(analysis, "gain over the control"),
    ]


def _quality_columns(analysis: labels.AnyAnalysis, gain: str) -> list[Column[Any]]:
    """The columns of a quality over seeds and of its comparison."""
    places = labels.places_of(analysis)

    def quality(row: labels.Measured) -> str:
        return "diverged" if labels.diverged(row) else fmt.fixed(row.quality.mean, places)

    def p_value(row: labels.Measured) -> float:
        comparison = labels.comparison_of(row)
        return comparison.corrected if comparison else math.nan

    return [
        Column(analysis.metric, quality, lambda row: row.quality.mean),
        Column("95 % interval", lambda row: fmt.interval(row.quality, places), lambda row: row.quality.low),
        Column(gain, lambda row: fmt.fixed(_gain(row).mean, places, signed=True), lambda row: _gain(row).mean),
        Column(
            "95 % interval of the gain",
            lambda row: fmt.interval(_gain(row), places, signed=True),
            lambda row: _gain(row).low,
            interval=_gain,
        ),
        Column("verdict", lambda row: labels.verdict_text(analysis, row), numeric=False),
        Column("p (Holm)", lambda row: fmt.p_value(p_value(row)), p_value),
        Column("seeds", lambda row: str(len(row.qualities)), lambda row: len(row.qualities)),
    ]


def _gain(row: labels.Measured) -> Estimate:
    comparison = labels.comparison_of(row)
    return comparison.difference if comparison else NOT_COMPARED


def as_estimate(correlation: Correlation) -> Estimate:
    """Return a correlation as an estimate, which can be formatted and drawn."""
    return Estimate(correlation.value, math.nan, correlation.low, correlation.high)


CORRELATION_COLUMNS: list[Column[Correlation]] = [
    Column("over", lambda c: f"{c.count:,} {c.over}", lambda c: c.count, numeric=False),
    Column("Spearman's correlation", lambda c: fmt.fixed(c.value, 2, signed=True), lambda c: c.value),
    Column("95 % interval", lambda c: fmt.interval(as_estimate(c), 2, signed=True), lambda c: c.low),
    Column(f"from {fmt.MINUS}1 to 1", lambda c: "", lambda c: c.value, numeric=False, interval=as_estimate),
]
FAILURE_COLUMNS: list[Column[FailedRun]] = [
    Column("schedule", lambda failed: failed[0], numeric=False),
    Column("seed", lambda failed: str(failed[1])),
    Column("reason", lambda failed: failed[2], numeric=False),
]


def pair_columns(analysis: Analysis) -> list[Column[Pair]]:
    """Return the columns of the table of pairs of equal cost."""
    places = labels.places_of(analysis)
    return [
        Column("starts high vs starts low", lambda p: f"{p[0]} vs {p[1]}", numeric=False),
        Column("gain", lambda p: fmt.fixed(p[2].difference.mean, places, signed=True)),
        Column("95 % interval", lambda p: fmt.interval(p[2].difference, places, signed=True)),
        Column("p (Holm)", lambda p: fmt.p_value(p[2].corrected)),
        Column("verdict on the first", lambda p: p[2].outcome, numeric=False),
    ]


def _exact_quality(row: labels.Measured) -> list[object]:
    """The values under :data:`QUALITY_HEADS`; empty where nothing was compared."""
    quality, gain, comparison = row.quality, _gain(row), labels.comparison_of(row)
    own = [len(row.qualities), quality.mean, quality.error, quality.low, quality.high, labels.diverged(row)]
    if comparison is None:
        return [*own, *[""] * 6]
    return [*own, gain.mean, gain.low, gain.high, comparison.p, comparison.corrected, comparison.outcome]


def settings_csv(analyses: Sequence[Analysis]) -> str:
    """Return a row per setting of each group, nothing rounded.

    >>> settings_csv([]).startswith("title,task,metric")
    True
    """
    rows = (
        (
            *(a.title, a.comparison_group.task, a.metric, a.higher_is_better),
            *(s.label, s.condition.schedule, s.group or "", s.baseline, *_exact_quality(s)),
            *(s.bitops, s.relative_cost, s.mean_bits, s.early_bits, s.seconds, s.on_front),
            *(*s.condition.operands.values(), _gradients(s.condition)),
        )
        for a in analyses
        for s in a.settings
    )
    return csv_text(SETTING_HEADS, rows)


def deficits_csv(analyses: Sequence[DeficitAnalysis]) -> str:
    """Return a row per point of each experiment; ``place`` is its length or start in normal runs.

    >>> deficits_csv([]).startswith("title,task,metric")
    True
    """
    rows = (
        (
            *(a.title, a.task, a.metric, a.higher_is_better, *a.bits, a.steps, a.window),
            *(experiment.name, point.arm, point.place, point.share, *_exact_quality(point)),
        )
        for a in analyses
        for experiment in labels.experiments_of(a)
        for point in experiment.points
    )
    return csv_text(DEFICIT_HEADS, rows)
