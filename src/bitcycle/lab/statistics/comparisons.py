"""Settings against the baseline: a paired t test over seeds, with Holm's correction for the number of settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bitcycle._support.student_t import Floats
from bitcycle.lab.judging import NOISE
from bitcycle.lab.statistics.analysis import Comparison, Interval, Outcome
from bitcycle.lab.statistics.bootstrap import LEVEL, estimate, stats


def compare(setting: Mapping[int, float], baseline: Mapping[int, float], sign: int) -> Comparison:
    """Compare one setting's metric by seed with the baseline's; ``sign`` is -1 where a lower metric is better.

    The p-value is that of the paired t test, see :func:`paired_p`. The outcome is that of a single comparison;
    :func:`corrected` takes all comparisons of a group into account. If any run of the two diverged, with a seed that
    both share or not, nothing is compared, as in :func:`~bitcycle.lab.judging.non_inferiority`.

    >>> found = compare({0: 0.9, 1: 0.8, 2: 0.7}, {0: 0.8, 1: 0.6, 2: 0.4, 3: 0.1}, sign=1)
    >>> round(found.difference.mean, 3), found.pairs, round(found.p, 4)
    (0.2, 3, 0.0742)
    """
    seeds = sorted(setting.keys() & baseline.keys())
    if not all(map(math.isfinite, (*setting.values(), *baseline.values()))):
        return Comparison(estimate([]), len(seeds), math.nan, math.nan, Outcome.DIVERGED)
    ours = sign * np.array([setting[seed] for seed in seeds], dtype=np.float64)
    theirs = sign * np.array([baseline[seed] for seed in seeds], dtype=np.float64)
    difference = estimate(ours - theirs)
    [found] = corrected([Comparison(difference, len(seeds), paired_p(ours, theirs), math.nan, Outcome.TOO_FEW_SEEDS)])
    return found


def paired_p(ours: Floats, theirs: Floats) -> float:
    """Return the two-sided p-value of ``t = mean(d) / (sd(d) / sqrt(n))`` for the differences d.

    NaN for fewer than two pairs; 1 if there is no difference at all. Where all
    differences are equal the t test would divide by zero, and be certain of an effect that two runs of a coarse metric
    may well show by chance; the sign test replaces it, ``p = 2^(1-n)``.

    >>> paired_p(np.array([0.3, 0.4]), np.array([0.3, 0.4])), paired_p(np.array([0.3, 0.4]), np.array([0.2, 0.3]))
    (1.0, 0.5)
    """
    n = len(ours)
    if n < 2:
        return math.nan
    noise = NOISE * max(np.abs(ours).max(), np.abs(theirs).max())
    differences = ours - theirs
    if np.abs(differences).max() <= noise:
        return 1.0
    if np.ptp(differences) <= noise:
        return 2.0 ** (1 - n)
    return float(stats().ttest_rel(ours, theirs).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number by Holm's method; undefined ones (NaN) stay undefined and do not count.

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
    """Apply Holm's correction over all comparisons, and set their outcomes by it."""
    raised = holm([comparison.p for comparison in comparisons])
    return [
        replace(comparison, corrected=p, outcome=_outcome(comparison, p))
        for comparison, p in zip(comparisons, raised, strict=True)
    ]


def _outcome(comparison: Comparison, p: float) -> Outcome:
    if comparison.outcome is Outcome.DIVERGED:
        return comparison.outcome
    if math.isnan(p):
        return Outcome.TOO_FEW_SEEDS
    if p >= LEVEL:
        return Outcome.NO_DIFFERENCE
    return Outcome.BETTER if comparison.difference.mean > 0 else Outcome.WORSE


def t_interval(comparison: Comparison | None) -> Interval:
    """Return the mean difference with the 95 % interval of the paired t test, which can exceed the differences seen.

    >>> found = t_interval(compare({0: 0.9, 1: 0.8, 2: 0.7}, {0: 0.8, 1: 0.6, 2: 0.4}, sign=1))
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (0.2, -0.048, 0.448)
    """
    if comparison is None:
        return Interval(math.nan, math.nan, math.nan)
    found = comparison.difference
    if comparison.pairs < 2:
        return Interval(found.mean, math.nan, math.nan)
    reach = float(stats().t.isf(LEVEL / 2, comparison.pairs - 1)) * found.error
    low, high = found.mean - reach, found.mean + reach
    if comparison.p >= LEVEL and not low <= 0 <= high:
        # Where all seeds differ by the same amount the interval has no width; the p-value accounts for that.
        return Interval(0.0, 0.0, 0.0) if comparison.p == 1 else Interval(found.mean, math.nan, math.nan)
    return Interval(found.mean, low, high)
