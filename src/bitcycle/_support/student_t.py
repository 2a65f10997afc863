"""Means with confidence bounds by Student's t, without scipy, which the library does not need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def mean_with_bounds(values: Sequence[float] | Floats, confidence: float) -> tuple[float, float, float]:
    """Return the mean and its one-sided bounds by Student's t; the bounds are NaN for a single value.

    >>> mean, lower, upper = mean_with_bounds([0.9, 1.0, 1.1], 0.95)
    >>> round(mean, 3), round(lower, 3), round(upper, 3)
    (1.0, 0.831, 1.169)
    """
    array: Floats = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    if array.size < 2:
        return mean, math.nan, math.nan
    reach = t_quantile(confidence, array.size - 1) * float(array.std(ddof=1)) / math.sqrt(array.size)
    return mean, mean - reach, mean + reach


@lru_cache(maxsize=256)
def t_quantile(confidence: float, degrees: int) -> float:
    """Return the quantile of Student's t for an integer number of degrees of freedom, by bisection.

    With ``a = atan(t / sqrt(degrees))`` the probability of ``[-t, t]`` is a finite sum (Abramowitz and Stegun, 26.7.3
    and 26.7.4): ``2/pi (a + sin a (cos a + 2/3 cos^3 a + ...))`` for odd degrees, and
    ``sin a (1 + 1/2 cos^2 a + 3/8 cos^4 a + ...)`` for even ones, up to the power ``degrees - 2``.

    >>> [round(t_quantile(0.95, degrees), 6) for degrees in (1, 2, 9)]
    [6.313752, 2.919986, 1.833113]
    """
    odd = degrees % 2

    def within(angle: float) -> float:
        sine, cosine = math.sin(angle), math.cos(angle)
        term = total = cosine if odd else 1.0
        if degrees == 1:
            total = 0.0
        for power in range(2 + odd, degrees - 1, 2):
            term *= cosine * cosine * (power - 1) / power
            total += term
        return 2 / math.pi * (angle + sine * total) if odd else sine * total

    low, high = 0.0, math.pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) < 2 * confidence - 1 else (low, middle)
    return math.tan(low) * math.sqrt(degrees)
