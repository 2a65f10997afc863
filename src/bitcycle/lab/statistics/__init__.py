"""Statistics of a study: one :class:`~bitcycle.lab.statistics.analysis.Analysis` for each group of comparable runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import ComparisonGroup
from bitcycle.lab.statistics.analysis import Analysis
from bitcycle.lab.statistics.findings import advice, claims
from bitcycle.lab.statistics.settings import baseline_of, by_condition, correlated, describe
from bitcycle.lab.statistics.trends import arrays, equal_cost, over_runs, over_settings

__all__ = ["analyse"]


def analyse(records: Iterable[RunResult], margin: float | None = None) -> list[Analysis]:
    """Analyse finished runs, each group of comparable runs by itself.

    Args:
        records: Results of runs, in any order.
        margin: The loss of quality that is still acceptable, as an absolute difference in the metric's units; by
            default 1 % of the baseline's mean metric. See :mod:`bitcycle.lab.judging`.

    Returns:
        One analysis for every group of comparable runs, sorted by title.

    Raises:
        ValueError: If runs of one group have different metrics, or one run has two results.

    Example:
        >>> from bitcycle.lab.runs.run_config import RunConfig
        >>> def record(spec, seed, accuracy, bitops):
        ...     run = RunConfig("graph", spec, 150, seed)
        ...     return RunResult(run, "accuracy", True, accuracy, accuracy, 150, bitops, 1.0)
        >>> static = [record("static:8", seed, 0.90 + 0.01 * seed, 1000) for seed in range(5)]
        >>> cyclic = [record("CR:3-8:cycles=8", seed, 0.91 + 0.012 * seed, 630) for seed in range(5)]
        >>> [found] = analyse(static + cyclic)
        >>> found.title, found.baseline, [(s.label, s.relative_cost) for s in found.settings]
        ('graph, 150 steps', 'static 8', [('CR', 0.63), ('static 8', 1.0)])
        >>> str(found.settings[0].against.outcome), str(found.settings[0].acceptable.judgement)
        ('better', 'better')
    """
    groups: dict[ComparisonGroup, list[RunResult]] = {}
    for record in records:
        groups.setdefault(record.run.group, []).append(record)
    titled = sorted(zip(titles(groups), groups, strict=True), key=lambda pair: (pair[0], repr(pair[1])))
    return [_analysis(title, group, groups[group], margin) for title, group in titled]


def titles(groups: Iterable[ComparisonGroup]) -> list[str]:
    """Describe each group of runs in one line, different from those of the others.

    What seldom differs is only part of a line that would occur twice.

    >>> from bitcycle.lab.runs.run_config import RunConfig
    >>> runs = RunConfig("graph", "full", 150), RunConfig("graph", "full", 150, diagnostics=True)
    >>> titles(run.group for run in runs)
    ['graph, 150 steps', 'graph, 150 steps, with diagnostics']
    """
    listed = list(groups)
    counts = Counter(group.title for group in listed)
    return [group.title if counts[group.title] == 1 else ", ".join([group.title, *group.details]) for group in listed]


def _analysis(title: str, group: ComparisonGroup, records: list[RunResult], margin: float | None) -> Analysis:
    metrics = {(record.metric, record.higher_is_better) for record in records}
    if len(metrics) > 1:
        names = " and ".join(sorted({metric for metric, _ in metrics}))
        raise ValueError(f"the runs of {title} have no metric in common: {names}")
    [(metric, higher_is_better)] = metrics
    sign = 1 if higher_is_better else -1
    by_seed = by_condition(records)
    baseline = baseline_of(by_seed)
    settings = describe(by_seed, baseline, sign, margin)
    related = correlated(settings)
    costs, qualities = arrays(
        [{seed: float(record.bitops) for seed, record in by_seed[s.condition].items()} for s in related],
        [{seed: sign * value for seed, value in s.qualities.items()} for s in related],
    )
    analysis = Analysis(
        comparison_group=group,
        title=title,
        metric=metric,
        higher_is_better=higher_is_better,
        baseline=next((s.label for s in settings if s.condition == baseline), None),
        settings=settings,
        correlations=[over_settings(costs, qualities), over_runs(costs, qualities)],
        equal_cost=equal_cost(settings, sign),
        claims=[],
        advice={},
    )
    return replace(analysis, claims=claims(analysis), advice=advice(analysis))
