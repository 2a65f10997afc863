"""The bootstrap: means and intervals from resamples, the same resamples on every call.

The percentile interval of a few values is too narrow: resampled means scatter by ``sd / sqrt(n)`` with the biased
``sd``, and it uses the normal quantile where Student's belongs. Hesterberg ("What teachers should know about the
bootstrap", 2015) corrects both by going further out into the tails,

    tail = Phi(-sqrt(n / (n - 1)) * t),    t the 97.5 % quantile of Student's t with n - 1 degrees of freedom,

which tends to 2.5 % as n grows. No bootstrap can leave the range of the values seen, and that range covers the median
of their distribution with a probability of only ``1 - 2^(1-n)``: see :func:`most_coverage`.

Resamples are drawn and used in blocks of rows, so that memory does not grow with the number of runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.extras import need
from bitcycle._support.rounding import Floats, power_of_two, scaled
from bitcycle.lab.statistics.analysis import Estimate

LEVEL = 0.05
"""Of tests; intervals cover the rest."""

RESAMPLES = 5000

BLOCK = 2_000_000
"""Most numbers in a block of resamples."""

_ROWS = 8
"""Blocks have a multiple of so many rows, for which a matrix product rounds every row as it does in the whole."""

_SEED = 20240403


def stats() -> ModuleType:
    """Return ``scipy.stats``, which comes with an extra.

    >>> round(float(stats().norm.sf(1.96)), 3)
    0.025
    """
    return need("scipy.stats", "study", "statistics")


def blocks(width: int) -> Iterator[slice]:
    """Yield the resamples as slices of rows, with at most BLOCK numbers each if a row has ``width``.

    >>> [(block.start, block.stop) for block in blocks(1_000_000)][:2], len(list(blocks(10)))
    ([(0, 8), (8, 16)], 1)
    """
    rows = max(1, BLOCK // (_ROWS * max(1, width))) * _ROWS
    for start in range(0, RESAMPLES, rows):
        yield slice(start, min(start + rows, RESAMPLES))


def drawn(n: int, width: int | None = None) -> Iterator[NDArray[np.int64]]:
    """Yield resamples of n things with replacement: blocks of indices, one resample per row.

    The blocks have room for ``width`` numbers per row, n by default.

    >>> [block] = drawn(5)
    >>> block.shape, int(block.min()), int(block.max())
    ((5000, 5), 0, 4)
    """
    generator = np.random.default_rng((_SEED, n, 0))
    yield from (generator.integers(n, size=(block.stop - block.start, n)) for block in blocks(width or n))


def counted(n: int, width: int | None = None) -> Iterator[Floats]:
    """Yield resamples of n things as how often each is drawn, in blocks; independent of :func:`drawn`.

    >>> [block] = counted(5)
    >>> bool((block.sum(axis=1) == 5).all())
    True
    """
    if RESAMPLES * n <= BLOCK:
        counts = _all_counts(n)
        yield from (counts[block].copy() for block in blocks(width or n))
        return
    generator = np.random.default_rng((_SEED, n, 1))
    for block in blocks(width or n):
        yield _draw_counts(generator, n, block.stop - block.start)


@lru_cache(maxsize=4)
def _all_counts(n: int) -> Floats:
    """Return all resamples at once, kept for the next setting with as many seeds."""
    return _draw_counts(np.random.default_rng((_SEED, n, 1)), n, RESAMPLES)


def _draw_counts(generator: np.random.Generator, n: int, rows: int) -> Floats:
    return generator.multinomial(n, np.full(n, 1 / n), size=rows).astype(np.float64)


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


def most_coverage(n: int) -> float:
    """Return the probability that the median of a distribution lies within n values of it: ``1 - 2^(1-n)``.

    >>> [most_coverage(n) for n in (2, 3, 5)]
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
    values_scaled = scaled(array)  # the square of an almost infinite perplexity would overflow
    mean = float(values_scaled.mean())
    error = float(values_scaled.std(ddof=1)) / math.sqrt(array.size)
    means = np.concatenate([counts @ values_scaled / array.size for counts in counted(array.size)])
    low, high = interval(means, array.size)
    figures = np.ldexp([mean, error, min(low, mean), max(high, mean)], power_of_two(array))
    return Estimate(*(float(figure) for figure in figures))
