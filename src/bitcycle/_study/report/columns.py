"""The columns of all tables of a report, and the CSV files with exact numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from bitcycle._study.analysis import Analysis, Comparison, Correlation, DeficitAnalysis, DeficitPoint, Estimate, Setting
from bitcycle._study.report import format as fmt
from bitcycle._study.report.findings import outcome_text
from bitcycle._study.report.info import FailedRun
from bitcycle._study.report.labels import (
    Experiment,
    Measured,
    comparison_of,
    diverged,
    experiments_of,
    places_of,
    saving_text,
    verdict_text,
)
from bitcycle._study.report.style import kind_of
from bitcycle._study.report.tables import Column, csv_text
from bitcycle._support.charts.scale import MINUS
from bitcycle._support.text import short

Row = TypeVar("Row", Setting, DeficitPoint)
Pair = tuple[str, str, Comparison]

QUALITY_HEADS = (
    *("seeds", "mean", "standard_error", "low", "high", "diverged"),
    *("difference", "difference_low", "difference_high", "p", "p_corrected", "verdict"),
)
SETTING_HEADS = (
    *("title", "task", "metric", "higher_is_better", "label", "schedule", "group", "baseline", *QUALITY_HEADS),
    *("bitops", "relative_cost", "mean_bits", "early_bits", "seconds", "on_front"),
)
DEFICIT_HEADS = (
    *("title", "task", "metric", "higher_is_better", "q_min", "q_max", "normal_steps", "window_steps"),
    *("experiment", "arm", "place_steps", "place", *QUALITY_HEADS),
)


def setting_columns(analysis: Analysis) -> list[Column[Setting]]:
    """Return the columns of the table of settings; the first eleven are for the Markdown summary as well."""
    columns: list[Column[Setting]] = [
        Column("schedule", lambda s: s.label, lambda s: s.label, numeric=False),
        Column("saving group", lambda s: kind_of(s).name, lambda s: kind_of(s).name, numeric=False),
        Column("saving", saving_text, lambda s: 1 - s.relative_cost),
    ]
    columns += _quality_columns(analysis, f"gain over {analysis.baseline or 'baseline'}")
    columns += [
        Column("Pareto front", lambda s: "yes" if s.on_front else "no", lambda s: float(s.on_front), numeric=False),
        Column("mean bits", lambda s: fmt.fixed(s.mean_bits, 2), lambda s: s.mean_bits),
        Column("bits in the first tenth", lambda s: fmt.fixed(s.early_bits, 2), lambda s: s.early_bits),
        Column("cost in BitOps", lambda s: _bitops(s.bitops), lambda s: s.bitops),
        Column("time per run", lambda s: fmt.duration(s.seconds), lambda s: s.seconds),
    ]
    return columns


def deficit_columns(analysis: DeficitAnalysis, experiment: Experiment) -> list[Column[DeficitPoint]]:
    """Return the columns of the table of an experiment."""
    columns: list[Column[DeficitPoint]] = [
        Column("arm", lambda p: p.arm, lambda p: p.arm, numeric=False),
        Column(f"{experiment.column} in normal trainings", lambda p: f"{p.share:.3g}", lambda p: p.share),
        Column(f"{experiment.column} in steps", lambda p: f"{p.place:,}", lambda p: p.place),
    ]
    return columns + _quality_columns(analysis, "gain over the control")


def _quality_columns(analysis: Analysis | DeficitAnalysis, gain: str) -> list[Column[Row]]:
    """The columns of a quality over seeds and of its comparison."""
    places = places_of(analysis)

    def difference(row: Measured) -> Estimate | None:
        comparison = comparison_of(row)
        return comparison.difference if comparison else None

    def p_value(row: Measured) -> float:
        comparison = comparison_of(row)
        return comparison.corrected if comparison else math.nan

    def signed(row: Measured) -> str:
        return fmt.fixed(e.mean, places, signed=True) if (e := difference(row)) else fmt.NONE

    def signed_interval(row: Measured) -> str:
        return fmt.interval(e, places, signed=True) if (e := difference(row)) else fmt.NONE

    def verdict(row: Measured) -> str:
        return verdict_text(analysis, row)

    return [
        Column(
            analysis.metric,
            lambda row: "diverged" if diverged(row) else fmt.fixed(row.quality.mean, places),
            lambda row: row.quality.mean,
        ),
        Column(
            "95 % interval",
            lambda row: fmt.NONE if diverged(row) else fmt.interval(row.quality, places),
            lambda row: row.quality.low,
        ),
        Column(gain, signed, lambda row: e.mean if (e := difference(row)) else math.nan),
        Column(
            "95 % interval of the gain",
            signed_interval,
            lambda row: e.low if (e := difference(row)) else math.nan,
            interval=difference,
        ),
        Column("verdict", verdict, verdict, numeric=False),
        Column("p (Holm)", lambda row: fmt.p_value(p_value(row)), p_value),
        Column("seeds", lambda row: str(len(row.qualities)), lambda row: len(row.qualities)),
    ]


def correlation_columns(drawn: bool = True) -> list[Column[Correlation]]:
    """Return the columns of the table of correlations of quality with cost."""
    columns: list[Column[Correlation]] = [
        Column("correlation", lambda c: c.kind, lambda c: c.kind, numeric=False),
        Column("over", lambda c: f"{c.count:,} {c.over}", lambda c: c.count, numeric=False),
        Column("value", lambda c: fmt.fixed(c.value, 2, signed=True), lambda c: c.value),
        Column("95 % interval", correlation_interval, lambda c: c.low),
    ]
    chart = Column[Correlation](f"from {MINUS}1 to 1", lambda c: "", lambda c: c.value, False, _correlation_estimate)
    return [*columns, chart] if drawn else columns


def correlation_interval(correlation: Correlation) -> str:
    """Format the 95 % interval of a correlation."""
    return fmt.interval(_correlation_estimate(correlation), 2, signed=True)


def _correlation_estimate(correlation: Correlation) -> Estimate:
    return Estimate(correlation.value, math.nan, correlation.low, correlation.high)


def pair_columns(analysis: Analysis) -> list[Column[Pair]]:
    """Return the columns of the table of pairs of equal cost."""
    places = places_of(analysis)
    return [
        Column("starts high vs starts low", lambda p: f"{p[0]} vs {p[1]}", lambda p: p[0], numeric=False),
        Column("gain", lambda p: fmt.fixed(p[2].difference.mean, places, signed=True), lambda p: p[2].difference.mean),
        Column("95 % interval", lambda p: fmt.interval(p[2].difference, places, signed=True), lambda p: p[2].p),
        Column("p (Holm)", lambda p: fmt.p_value(p[2].corrected), lambda p: p[2].corrected),
        Column("verdict on the first", lambda p: outcome_text(p[2]), lambda p: outcome_text(p[2]), numeric=False),
    ]


def failure_columns() -> list[Column[FailedRun]]:
    """Return the columns of the table of failed runs."""
    return [
        Column("schedule", lambda f: f[0], lambda f: f[0], numeric=False),
        Column("seed", lambda f: str(f[1]), lambda f: f[1]),
        Column("reason", lambda f: f[2], lambda f: f[2], numeric=False),
    ]


def _bitops(bitops: float) -> str:
    return short(round(bitops)) if math.isfinite(bitops) else fmt.NONE


def _exact_quality(row: Measured) -> list[object]:
    """The values under :data:`QUALITY_HEADS`; empty where nothing was compared."""
    quality, comparison = row.quality, comparison_of(row)
    own: list[object] = [len(row.qualities), quality.mean, quality.error, quality.low, quality.high, diverged(row)]
    if comparison is None:
        return [*own, *[""] * 6]
    gain = comparison.difference
    return [*own, gain.mean, gain.low, gain.high, comparison.p, comparison.corrected, outcome_text(comparison)]


def settings_csv(analyses: Sequence[Analysis]) -> str:
    """Return a row per setting of each question, nothing rounded.

    >>> settings_csv([]).startswith("title,task,metric")
    True
    """
    rows = (
        (
            *(
                a.title,
                a.question.task,
                a.metric,
                a.higher_is_better,
                s.label,
                s.run.schedule,
                s.group or "",
                s.baseline,
            ),
            *_exact_quality(s),
            *(s.bitops, s.relative_cost, s.mean_bits, s.early_bits, s.seconds, s.on_front),
        )
        for a in analyses
        for s in a.settings
    )
    return csv_text(SETTING_HEADS, rows)


def deficits_csv(analyses: Sequence[DeficitAnalysis]) -> str:
    """Return a row per point of each experiment; ``place`` is its length or position in normal trainings.

    >>> deficits_csv([]).startswith("title,task,metric")
    True
    """
    rows = (
        (
            *(a.title, a.task, a.metric, a.higher_is_better, *a.bits, a.steps, a.window),
            *(experiment.name, point.arm, point.place, point.share),
            *_exact_quality(point),
        )
        for a in analyses
        for experiment in experiments_of(a)
        for point in experiment.points
    )
    return csv_text(DEFICIT_HEADS, rows)
