"""What the report says about a setting, and where its figures come from."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bitcycle._study.analysis import Analysis, DeficitAnalysis, Estimate, Setting
from bitcycle._study.report import words
from bitcycle._study.report.look import kind_of
from bitcycle.experiments.result import RunResult


def diverged(setting: Setting) -> bool:
    """Whether there is no quality to show, since a training ended in infinity or NaN."""
    return not math.isfinite(setting.quality.mean)


def has_cost(setting: Setting) -> bool:
    """Whether its cost is known in relation to a baseline."""
    return math.isfinite(setting.relative_cost)


def shown(analysis: Analysis) -> list[Setting]:
    """The settings that have a place in the plots."""
    return [setting for setting in analysis.settings if not diverged(setting)]


def key_of(analysis: Analysis, setting: Setting) -> str:
    """What names a setting within its section of the page: labels may hold anything, a number may not."""
    return str(next(i for i, other in enumerate(analysis.settings) if other is setting))


def runs_of(setting: Setting, records: Iterable[RunResult]) -> list[RunResult]:
    """The records of a setting, one a seed."""
    return [record for record in records if record.run.setting == setting.run.setting]


def places_of(analysis: Analysis) -> int:
    """The decimals of the metric: four figures of the largest mean."""
    return words.decimals(setting.quality.mean for setting in analysis.settings)


def quality_words(analysis: Analysis, estimate: Estimate) -> str:
    """A mean with its interval, if it has one."""
    places = places_of(analysis)
    mean = words.fixed(estimate.mean, places)
    if not words.has_interval(estimate):
        return mean
    return f"{mean}, 95 % interval {words.interval(estimate, places)}"


def saving_words(setting: Setting) -> str:
    """The saving, or how many times more it costs.

    A group's name alone is easily misread, so the saving always stands beside it.
    """
    if not has_cost(setting):
        return words.NONE
    if setting.relative_cost > 1.005:
        return f"{setting.relative_cost:.1f} times the cost"
    return words.percent(1 - setting.relative_cost)


def against_words(analysis: Analysis, setting: Setting) -> str:
    """The verdict against the baseline."""
    if setting.label == analysis.baseline:
        return "the baseline"
    return setting.against.outcome if setting.against else words.NONE


def better_words(analysis: Analysis | DeficitAnalysis) -> str:
    """Which way is better."""
    return "higher is better" if analysis.higher_is_better else "lower is better"


def baseline_words(analysis: Analysis) -> str:
    """What the cost is measured by."""
    return analysis.baseline or "the baseline"


def tip_lines(analysis: Analysis, setting: Setting) -> list[str]:
    """What the tooltip of a setting says, line by line."""
    kind = kind_of(setting)
    lines = [setting.label]
    if diverged(setting):
        lines.append(f"{analysis.metric}: diverged")
    else:
        lines.append(f"{analysis.metric} {quality_words(analysis, setting.quality)}")
        lines.append(f"over {words.count(len(setting.qualities), 'seed')}")
    if has_cost(setting) and setting.relative_cost <= 1.005 and setting.label != analysis.baseline:
        lines.append(f"saves {saving_words(setting)} of the cost of {baseline_words(analysis)}")
    elif has_cost(setting) and setting.relative_cost > 1.005:
        lines.append(f"{saving_words(setting)} of {baseline_words(analysis)}")
    bits = "32-bit floats" if kind.name == "full" else f"{setting.mean_bits:.2f} bits on average"
    lines.append(bits if setting.baseline else f"{bits}, {setting.early_bits:.2f} in the first tenth")
    if setting.against:
        lines.append(f"against {baseline_words(analysis)}: {setting.against.outcome}")
    return lines


def question_words(analysis: Analysis) -> str:
    """The task, its model, data and length, in a sentence's part."""
    question = analysis.question
    parts = [f"Task {question.task}"]
    if question.model:
        parts.append(f"model {question.model}")
    parts.append(f"data {question.data}" if question.data else "embedded data")
    parts.append(f"{question.steps:,} steps of training")
    if question.batch_size:
        parts.append(f"batches of {question.batch_size}")
    parts += [f"{name} {value}" for name, value in question.options]
    return ", ".join(parts)
