"""Settings against the baseline: a paired t test over seeds, and Holm's correction for the number of settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bitcycle._study.analysis import Comparison
from bitcycle._study.statistics.estimates import estimate
from bitcycle._study.statistics.resampling import LEVEL
from bitcycle._study.statistics.rounding import NOISE, Floats, scaled
from bitcycle._study.statistics.scipy_stats import stats


def compare(setting: Mapping[int, float], baseline: Mapping[int, float], sign: int) -> Comparison:
    """One setting's metric by seed against the baseline's; ``sign`` is -1 where a lower metric is better.

    The p-value is that of the paired t test; see :func:`paired_p`. It is corrected, and the verdict given, by
    :func:`corrected`, for which all comparisons of a question are needed.

    >>> found = compare({0: 0.9, 1: 0.8, 2: 0.7}, {0: 0.8, 1: 0.6, 2: 0.4, 3: 0.1}, sign=1)
    >>> round(found.difference.mean, 3), found.pairs, round(found.p, 4)
    (0.2, 3, 0.0742)
    """
    seeds = sorted(setting.keys() & baseline.keys())
    ours = sign * np.array([setting[seed] for seed in seeds], dtype=np.float64)
    theirs = sign * np.array([baseline[seed] for seed in seeds], dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # infinity minus infinity: not a number, and so it stays
        difference = estimate(ours - theirs)
    return Comparison(difference, len(seeds), paired_p(ours, theirs), math.nan, "")


def paired_p(ours: Floats, theirs: Floats) -> float:
    """The two-sided p-value of ``t = mean(d) / (sd(d) / sqrt(n))`` for the differences d.

    NaN for fewer than two pairs, and for values that are not finite. Without any difference it is 1. Where all
    differences are the same the t test would divide by zero and be certain of an effect that two runs of a coarse
    metric may well show by chance; the sign test takes its place, ``p = 2^(1-n)``.

    >>> paired_p(np.array([0.3, 0.4]), np.array([0.3, 0.4])), paired_p(np.array([0.3, 0.4]), np.array([0.2, 0.3]))
    (1.0, 0.5)
    """
    n = len(ours)
    if n < 2 or not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return math.nan
    ours, theirs = scaled(np.stack([ours, theirs]))
    noise = NOISE * max(np.abs(ours).max(), np.abs(theirs).max())
    differences = ours - theirs
    if np.abs(differences).max() <= noise:
        return 1.0
    if np.ptp(differences) <= noise:
        return 2.0 ** (1 - n)
    return float(stats().ttest_rel(ours, theirs).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number by Holm's method; undefined ones (NaN) stay, and do not count.

    With ``p_1 <= ... <= p_m``, the i-th becomes ``max over j <= i of min(1, (m - j + 1) p_j)``.

    >>> holm([0.01, 0.04, 0.03, float("nan")])
    [0.03, 0.06, 0.06, nan]
    """
    order = sorted((i for i, p in enumerate(p_values) if not math.isnan(p)), key=lambda i: p_values[i])
    raised = list(p_values)
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[i]))
        raised[i] = largest
    return raised


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The same comparisons with Holm's correction over all of them, and with verdicts."""
    raised = holm([comparison.p for comparison in comparisons])
    return [
        replace(comparison, corrected=p, verdict=_verdict(comparison, p))
        for comparison, p in zip(comparisons, raised, strict=True)
    ]


def _verdict(comparison: Comparison, p: float) -> str:
    if comparison.pairs and not math.isfinite(comparison.difference.mean):
        return "diverged"
    if math.isnan(p):
        return "too few seeds"
    if p >= LEVEL:
        return "no difference shown"
    return "better" if comparison.difference.mean > 0 else "worse"


def largest_loss(comparison: Comparison) -> float:
    """The largest loss inside the 95 % interval of the paired t test: ``max(0, t * error - mean)``.

    It is this interval rather than the bootstrap's that belongs to the verdict, and that reaches beyond the few
    differences seen.

    >>> round(largest_loss(compare({0: 0.9, 1: 0.8, 2: 0.7}, {0: 0.8, 1: 0.6, 2: 0.4}, sign=1)), 3)
    0.048
    """
    if comparison.pairs < 2:
        return math.nan
    t = float(stats().t.isf(LEVEL / 2, comparison.pairs - 1))
    bound = t * comparison.difference.error - comparison.difference.mean
    return bound if math.isnan(bound) else max(0.0, bound)
