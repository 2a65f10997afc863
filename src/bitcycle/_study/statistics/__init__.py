"""Statistics of a study: from records to one :class:`~bitcycle._study.analysis.Analysis` for every question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from bitcycle._study.analysis import Analysis
from bitcycle._study.statistics.correlations import Table, correlations
from bitcycle._study.statistics.equal_cost import equal_cost
from bitcycle._study.statistics.findings import advice, claims
from bitcycle._study.statistics.settings import baseline_of, by_setting, correlated, describe
from bitcycle.advice.non_inferiority import checked_margin
from bitcycle.experiments.result import RunResult
from bitcycle.experiments.run_config import RunConfig

__all__ = ["analyse"]


def analyse(records: Iterable[RunResult], margin: float | None = None) -> list[Analysis]:
    """Analyse finished runs, question by question.

    Args:
        records: Results of runs, in any order.
        margin: The loss of quality that is still acceptable, as an absolute difference in the metric's units; by
            default 1 % of the baseline's mean metric. See :mod:`bitcycle.advice.non_inferiority`.

    Returns:
        One analysis for every question, sorted by title.

    Raises:
        ValueError: If runs of one question have different metrics, or one run has two results.

    Example:
        >>> def record(spec, seed, accuracy, bitops):
        ...     run = RunConfig("graph", spec, 150, seed)
        ...     return RunResult(run, "accuracy", True, accuracy, accuracy, 150, bitops, 1.0)
        >>> static = [record("static:8", seed, 0.90 + 0.01 * seed, 1000) for seed in range(5)]
        >>> cyclic = [record("CR:3-8:cycles=8", seed, 0.91 + 0.012 * seed, 630) for seed in range(5)]
        >>> [found] = analyse(static + cyclic)
        >>> found.title, found.baseline, [(s.label, s.relative_cost) for s in found.settings]
        ('graph, 150 steps', 'static 8', [('CR', 0.63), ('static 8', 1.0)])
        >>> str(found.settings[0].against.outcome), str(found.settings[0].acceptable.judgement)
        ('better', 'accepted')
    """
    if margin is not None:
        margin = checked_margin(margin)
    questions: dict[RunConfig, list[RunResult]] = {}
    for record in records:
        questions.setdefault(record.question, []).append(record)
    titled = sorted(zip(titles(questions), questions, strict=True), key=lambda pair: (pair[0], pair[1].name))
    return [_analysis(title, question, questions[question], margin) for title, question in titled]


def titles(questions: Iterable[RunConfig]) -> list[str]:
    """Describe each question in one line, different from those of the others.

    What seldom differs is only part of a line that would occur twice.

    >>> titles([RunConfig("graph", "", 150), RunConfig("graph", "", 150, diagnostics=True), RunConfig("graph", "", 9)])
    ['graph, 150 steps', 'graph, 150 steps, with diagnostics', 'graph, 9 steps']
    """
    described = [(_title(question), question) for question in questions]
    counts = Counter(short for short, _ in described)
    return [short if counts[short] == 1 else ", ".join([short, *_details(question)]) for short, question in described]


def _details(question: RunConfig) -> list[str]:
    parts = ["with diagnostics"] if question.diagnostics else []
    parts += [f"source {question.source}"] if question.source else []
    parts += [f"data fingerprint {question.fingerprint}"] if question.fingerprint else []
    return parts


def _title(question: RunConfig) -> str:
    """Describe a question in one line.

    >>> _title(RunConfig("graph", "", 150, model="gcn", options={"aggregation": "quantized"}))
    'graph, model gcn, 150 steps, aggregation=quantized'
    """
    parts = [question.task]
    parts += [f"model {question.model}"] if question.model else []
    parts += [f"data {question.data}"] if question.data else []
    parts += [f"{question.steps} steps"]
    parts += [f"batches of {question.batch_size}"] if question.batch_size else []
    parts += [f"{name}={value}" for name, value in question.options]
    parts += ["in bfloat16"] if question.autocast else []
    parts += ["compiled"] if question.compiled else []
    parts += ["last weights"] if question.test_weights == "last" else []
    parts += [f"evaluated at {question.evaluate_at} bits"] if question.evaluate_at != "max" else []
    return ", ".join(parts)


def _analysis(title: str, question: RunConfig, records: list[RunResult], margin: float | None) -> Analysis:
    metrics = {(record.metric, record.higher_is_better) for record in records}
    if len(metrics) > 1:
        names = " and ".join(sorted({metric for metric, _ in metrics}))
        raise ValueError(f"the runs of {title} have no metric in common: {names}")
    [(metric, higher_is_better)] = metrics
    sign = 1 if higher_is_better else -1
    groups = by_setting(records)
    baseline = baseline_of(groups)
    settings = describe(groups, baseline, sign, margin)
    related = correlated(settings)
    table = Table.of(
        [{seed: float(record.bitops) for seed, record in groups[s.run].items()} for s in related],
        [{seed: sign * value for seed, value in s.qualities.items()} for s in related],
    )
    analysis = Analysis(
        question=question,
        title=title,
        metric=metric,
        higher_is_better=higher_is_better,
        baseline=next((s.label for s in settings if s.run == baseline), None),
        settings=settings,
        correlations=correlations(table),
        equal_cost=equal_cost(settings, sign),
        claims=[],
        advice={},
    )
    return replace(analysis, claims=claims(analysis), advice=advice(analysis))
