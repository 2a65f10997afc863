"""Means over seeds with bootstrap intervals, and paired t tests with Holm's correction for their number.

The bootstrap draws the same resamples on every call. The percentile interval of a few values is too narrow: resampled
means scatter by ``sd / sqrt(n)`` with the biased ``sd``, and it uses the normal quantile where Student's belongs.
Hesterberg ("What teachers should know about the bootstrap", 2015) corrects both by going further out into the tails,

    tail = Phi(-sqrt(n / (n - 1)) * t),    t the 97.5 % quantile of Student's t with n - 1 degrees of freedom,

which tends to 2.5 % as n grows. No bootstrap can leave the range of the values seen, and that range covers the median
of their distribution with a probability of only ``1 - 2^(1-n)``.

Resamples are used in blocks of rows, so that a large study needs little memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.extras import need
from bitcycle._support.student_t import Floats
from bitcycle.lab.judging import NOISE
from bitcycle.lab.statistics.analysis import Comparison, Estimate, Outcome

LEVEL = 0.05
"""Of tests; intervals cover the rest."""

RESAMPLES = 5000

ROWS = 200
"""Resamples in a block. With a multiple of 8 rows, a matrix product rounds every row as it does in the whole."""

_SEED = 20240403


def stats() -> ModuleType:
    """Return ``scipy.stats``, which comes with an extra.

    >>> round(float(stats().norm.sf(1.96)), 3)
    0.025
    """
    return need("scipy.stats", "study", "statistics")


def drawn(n: int) -> Iterator[NDArray[np.int64]]:
    """Yield resamples of n things with replacement: blocks of indices, one resample per row.

    >>> blocks = list(drawn(5))
    >>> len(blocks), blocks[0].shape, int(blocks[0].min()), int(blocks[0].max())
    (25, (200, 5), 0, 4)
    """
    generator = np.random.default_rng((_SEED, n, 0))
    yield from (generator.integers(n, size=(ROWS, n)) for _ in range(RESAMPLES // ROWS))


@lru_cache(maxsize=4)
def counted(n: int) -> tuple[Floats, ...]:
    """Return resamples of n things as how often each is drawn, in blocks; independent of :func:`drawn`.

    They are kept for the next setting with as many seeds.

    >>> all((block.sum(axis=1) == 5).all() for block in counted(5))
    True
    """
    counts = np.random.default_rng((_SEED, n, 1)).multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)
    counts.setflags(write=False)
    return tuple(np.split(counts, RESAMPLES // ROWS))


@lru_cache(maxsize=64)
def tail(n: int) -> float:
    """Return the share of resamples to leave out on either side for a 95 % interval from n values.

    >>> round(tail(5), 5), round(tail(1000), 3)
    (0.00095, 0.025)
    """
    t = stats().t.isf(LEVEL / 2, n - 1)
    return float(stats().norm.sf(math.sqrt(n / (n - 1)) * t))


def interval(resampled: Floats, n: int) -> tuple[float, float]:
    """Return the 95 % interval from statistics of resamples of n values; undefined ones (NaN) are dropped."""
    defined = resampled[~np.isnan(resampled)]
    if n < 2 or not defined.size:
        return math.nan, math.nan
    low, high = np.quantile(defined, [tail(n), 1 - tail(n)])
    return float(low), float(high)


def estimate(values: Iterable[float]) -> Estimate:
    """Return the mean, ``sd / sqrt(n)`` with the unbiased variance, and the 95 % bootstrap interval.

    A value that is not a finite number, as from a run that diverged, passes into the mean; the error and the interval
    are then undefined, as they are for a single value.

    >>> found = estimate([0.90, 0.92, 0.91, 0.95, 0.92])
    >>> round(found.mean, 3), round(found.error, 4), found.low < 0.92 < found.high
    (0.92, 0.0084, True)
    >>> estimate([3.0]), estimate([3.0, float("inf")]).mean
    (Estimate(mean=3.0, error=nan, low=nan, high=nan), inf)
    """
    array = np.fromiter(values, dtype=np.float64)
    if array.size < 2 or not np.isfinite(array).all():
        with np.errstate(invalid="ignore"):  # infinity and minus infinity have no mean
            mean = float(array.mean()) if array.size else math.nan
        return Estimate(mean, math.nan, math.nan, math.nan)
    if (array == array[0]).all():
        only = float(array[0])  # the computed mean of equal values may differ from them by rounding
        return Estimate(only, 0.0, only, only)
    mean = float(array.mean())
    error = float(array.std(ddof=1)) / math.sqrt(array.size)
    means = np.concatenate([counts @ array / array.size for counts in counted(array.size)])
    low, high = interval(means, array.size)
    return Estimate(mean, error, min(low, mean), max(high, mean))


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


def t_interval(comparison: Comparison | None) -> Estimate:
    """Return the mean difference with the 95 % interval of the paired t test, which can exceed the differences seen.

    >>> found = t_interval(compare({0: 0.9, 1: 0.8, 2: 0.7}, {0: 0.8, 1: 0.6, 2: 0.4}, sign=1))
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (0.2, -0.048, 0.448)
    """
    if comparison is None:
        return estimate([])
    found = comparison.difference
    if comparison.pairs < 2:
        return replace(found, low=math.nan, high=math.nan)
    reach = float(stats().t.isf(LEVEL / 2, comparison.pairs - 1)) * found.error
    low, high = found.mean - reach, found.mean + reach
    if comparison.p >= LEVEL and not low <= 0 <= high:
        # Where all seeds differ by the same amount the interval has no width; the p-value accounts for that.
        return Estimate(0.0, 0.0, 0.0, 0.0) if comparison.p == 1 else replace(found, low=math.nan, high=math.nan)
    return replace(found, low=low, high=high)
