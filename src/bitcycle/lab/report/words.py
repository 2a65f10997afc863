"""The results of a study in words, made from the values of an analysis by ``templates/words.txt``."""

from __future__ import annotations

import math

from bitcycle._support.text import table
from bitcycle.lab.format import cost_phrase
from bitcycle.lab.judging import MIN_SEEDS
from bitcycle.lab.report.labels import AnyAnalysis
from bitcycle.lab.report.rendering import ENVIRONMENT
from bitcycle.lab.statistics.analysis import ENOUGH_SEEDS, Analysis, Claim, DeficitAnalysis, DeficitPoint, Estimate
from bitcycle.lab.statistics.estimates import LEVEL, stats

SEPARATOR = "\N{PARAGRAPH SEPARATOR}"
"""Stands between sentences."""


def headline(claim: Claim, analysis: AnyAnalysis) -> str:
    """Say in one short sentence, with its number, the result of a claim.

    Args:
        claim: One of ``analysis.claims``.
        analysis: The analysis that the claim belongs to.
    """
    return _sentences(claim.kind.name.lower(), claim, analysis, True)[0]


def details(claim: Claim, analysis: AnyAnalysis) -> str:
    """Say the result of a claim with all of its statistics; see :func:`headline`."""
    return _sentences(claim.kind.name.lower(), claim, analysis, False)[0]


def recommendations(analysis: Analysis) -> list[str]:
    """Return two to four sentences on which setting to choose."""
    return _sentences("recommendations", analysis)


def _sentences(macro: str, *values: object) -> list[str]:
    constants = {"MIN_SEEDS": MIN_SEEDS, "ENOUGH_SEEDS": ENOUGH_SEEDS, "SEPARATOR": SEPARATOR}
    words = ENVIRONMENT.get_template("words.txt", globals={**constants, "tested": tested, "hurdle": hurdle})
    sentences = getattr(words.module, macro)(*values).split(SEPARATOR)
    return [" ".join(sentence.split()) for sentence in sentences if sentence.strip()]


def tested(analysis: Analysis) -> int:
    """Return the number of settings that could be compared with the baseline."""
    return sum(setting.against is not None and not math.isnan(setting.against.p) for setting in analysis.settings)


def hurdle(comparisons: int, seeds: int) -> float:
    """Return the standard errors that a difference must exceed to be significant among so many.

    >>> round(hurdle(11, seeds=3), 1)
    14.8
    """
    return float(stats().t.isf(LEVEL / 2 / comparisons, seeds - 1))


def analysis_text(analysis: AnyAnalysis) -> str:
    """Return the title, the tables and the claims as plain text."""
    sign = "higher" if analysis.higher_is_better else "lower"
    tables = _settings(analysis) if isinstance(analysis, Analysis) else _experiments(analysis)
    return "\n".join(
        [
            f"{analysis.title}: {analysis.metric}, {sign} is better",
            *tables,
            *(f"- {headline(claim, analysis)} ({claim.verdict})" for claim in analysis.claims),
        ]
    )


def _settings(analysis: Analysis) -> list[str]:
    rows = [
        [
            *(setting.label, *_quality(setting.quality), cost_phrase(setting.relative_cost), str(setting.group or "")),
            setting.against.outcome if setting.against else "the baseline" if setting.baseline else "",
        ]
        for setting in analysis.settings
    ]
    return [table(["setting", "mean", "95 % interval", "cost", "group", "against the baseline"], rows)]


def _experiments(analysis: DeficitAnalysis) -> list[str]:
    experiments = {"length": analysis.lengths, "begins at": analysis.positions}
    heads = ["arm", "mean", "95 % interval", "against the control"]
    return [table([place, *heads], list(map(_deficit, points))) for place, points in experiments.items() if points]


def _deficit(point: DeficitPoint) -> list[str]:
    outcome = point.loss.outcome if point.loss else "the control"
    return [f"{point.place:,} steps", point.arm, *_quality(point.quality), outcome]


def _quality(quality: Estimate) -> list[str]:
    return [f"{quality.mean:.4f}", f"[{quality.low:.4f}, {quality.high:.4f}]"]
