"""A mean over seeds, with its standard error and a bootstrap interval."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from bitcycle._study.analysis import Estimate
from bitcycle._study.statistics.resampling import counted, interval
from bitcycle._study.statistics.rounding import power_of_two, scaled


def estimate(values: Iterable[float]) -> Estimate:
    """The mean, ``sd / sqrt(n)`` with the unbiased variance, and the 95 % interval of :mod:`.resampling`.

    A value that is no finite number, as of a run that diverged, passes into the mean; the error and the interval are
    then undefined, as they are for a single value.

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
        only = float(array[0])  # the mean of equal values may be off by a rounding
        return Estimate(only, 0.0, only, only)
    values_scaled = scaled(array)  # squares of a perplexity that is all but infinite would overflow
    mean = float(values_scaled.mean())
    error = float(values_scaled.std(ddof=1)) / math.sqrt(array.size)
    low, high = interval(counted(array.size) @ values_scaled / array.size, array.size)
    figures = np.ldexp([mean, error, min(low, mean), max(high, mean)], power_of_two(array))
    return Estimate(*(float(figure) for figure in figures))
