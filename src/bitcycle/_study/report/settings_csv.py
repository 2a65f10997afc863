"""All settings of a study as a table for programs: exact numbers, nothing rounded."""

from __future__ import annotations

from collections.abc import Sequence

from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.report.exact_figures import FIGURES, csv_of, figures

HEADS = [
    "title",
    "task",
    "metric",
    "higher_is_better",
    "label",
    "schedule",
    "group",
    "baseline",
    *FIGURES,
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
    return csv_of(HEADS, (_line(analysis, setting) for analysis in analyses for setting in analysis.settings))


def _line(analysis: Analysis, setting: Setting) -> list[object]:
    return [
        analysis.title,
        analysis.question.task,
        analysis.metric,
        analysis.higher_is_better,
        setting.label,
        setting.run.schedule,
        setting.group or "",
        setting.baseline,
        *figures(setting.qualities, setting.quality, setting.against),
        setting.bitops,
        setting.relative_cost,
        setting.mean_bits,
        setting.early_bits,
        setting.seconds,
        setting.on_front,
    ]
