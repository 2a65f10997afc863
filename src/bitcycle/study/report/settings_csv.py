"""All settings of a study as a table for programs: exact numbers, nothing rounded."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from bitcycle.study.analysis import Analysis, Setting
from bitcycle.study.report.facts import diverged

HEADS = [
    "title",
    "task",
    "metric",
    "higher_is_better",
    "label",
    "schedule",
    "group",
    "baseline",
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
    "bitops",
    "relative_cost",
    "mean_bits",
    "early_bits",
    "seconds",
    "on_front",
]


def settings_csv(analyses: Sequence[Analysis]) -> str:
    """A line for each setting of each question.

    >>> settings_csv([]).startswith("title,task,metric")
    True
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADS)
    writer.writerows(_line(analysis, setting) for analysis in analyses for setting in analysis.settings)
    return out.getvalue()


def _line(analysis: Analysis, setting: Setting) -> list[object]:
    against = setting.against
    compared: list[object] = [""] * 6
    if against:
        difference = against.difference
        compared = [difference.mean, difference.low, difference.high, against.p, against.corrected, against.verdict]
    return [
        analysis.title,
        analysis.question.task,
        analysis.metric,
        analysis.higher_is_better,
        setting.label,
        setting.run.schedule,
        setting.group or "",
        setting.baseline,
        len(setting.qualities),
        setting.quality.mean,
        setting.quality.error,
        setting.quality.low,
        setting.quality.high,
        diverged(setting),
        *compared,
        setting.bitops,
        setting.relative_cost,
        setting.mean_bits,
        setting.early_bits,
        setting.seconds,
        setting.on_front,
    ]
