"""The bootstrap: means and intervals from resamples, the same resamples on every call.

The percentile interval of a few values is too narrow: resampled means scatter by ``sd / sqrt(n)`` with the biased
``sd``, and it uses the normal quantile where Student's belongs. Hesterberg ("What teachers should know about the
bootstrap", 2015) corrects both by going further out into the tails,

    tail = Phi(-sqrt(n / (n - 1)) * t),    t the 97.5 % quantile of Student's t with n - 1 degrees of freedom,

which tends to 2.5 % as n grows. No bootstrap can leave the range of the values seen, and that range covers the median
of their distribution with a probability of only ``1 - 2^(1-n)``: see :func:`max_coverage`.

Resamples are used in blocks of rows, so that a large study needs little memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.extras import need
from bitcycle._support.student_t import Floats
from bitcycle.lab.statistics.analysis import Estimate

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


def max_coverage(n: int) -> float:
    """Return the probability that the median of a distribution lies within n values of it: ``1 - 2^(1-n)``.

    >>> [max_coverage(n) for n in (2, 3, 5)]
    [0.5, 0.75, 0.9375]
    """
    return 1 - 2.0 ** (1 - n)


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
    if not array.size:
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    if not np.isfinite(array).all():
        with np.errstate(invalid="ignore"):  # infinity and minus infinity have no mean
            return Estimate(float(array.mean()), math.nan, math.nan, math.nan)
    if array.size == 1:
        return Estimate(float(array[0]), math.nan, math.nan, math.nan)
    if (array == array[0]).all():
        only = float(array[0])  # the computed mean of equal values may differ from them by rounding
        return Estimate(only, 0.0, only, only)
    mean = float(array.mean())
    error = float(array.std(ddof=1)) / math.sqrt(array.size)
    means = np.concatenate([counts @ array / array.size for counts in counted(array.size)])
    low, high = interval(means, array.size)
    return Estimate(mean, error, min(low, mean), max(high, mean))
