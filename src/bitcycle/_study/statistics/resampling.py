"""The bootstrap: intervals from resamples, the same ones on every call.

The percentile interval of a few values is too narrow: resampled means scatter by ``sd / sqrt(n)`` with the biased
``sd``, and the normal quantile stands where Student's belongs. Hesterberg ("What teachers should know about the
bootstrap", 2015) corrects both by going further out into the tails,

    tail = Phi(-sqrt(n / (n - 1)) * t),    t the 97.5 % quantile of Student's t with n - 1 degrees of freedom,

which tends to 2.5 % as n grows. What no bootstrap can do is leave the range of the values seen, and that covers
the median of their distribution with probability ``1 - 2^(1-n)`` only: see :func:`most_coverage`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bitcycle._study.statistics.rounding import Floats
from bitcycle._study.statistics.scipy_stats import stats

LEVEL = 0.05
"""Of tests; intervals cover the rest."""

RESAMPLES = 5000

_SEED = 20240403


@lru_cache(maxsize=64)
def drawn(n: int) -> NDArray[np.int64]:
    """Resamples of n things, with replacement: an array of indices, one resample a row.

    >>> drawn(5).shape, int(drawn(5).min()), int(drawn(5).max())
    ((5000, 5), 0, 4)
    """
    indices = np.random.default_rng((_SEED, n, 0)).integers(n, size=(RESAMPLES, n))
    indices.setflags(write=False)
    return indices


@lru_cache(maxsize=64)
def counted(n: int) -> Floats:
    """Resamples of n things as how often each is drawn; independent of :func:`drawn`.

    >>> bool((counted(5).sum(axis=1) == 5).all())
    True
    """
    generator = np.random.default_rng((_SEED, n, 1))
    counts = generator.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)
    counts.setflags(write=False)
    return counts


@lru_cache(maxsize=64)
def tail(n: int) -> float:
    """The share of resamples to leave out on either side, for a 95 % interval from n values.

    >>> round(tail(5), 5), round(tail(1000), 3)
    (0.00095, 0.025)
    """
    t = stats().t.isf(LEVEL / 2, n - 1)
    return float(stats().norm.sf(math.sqrt(n / (n - 1)) * t))


def interval(resampled: Floats, n: int) -> tuple[float, float]:
    """The 95 % interval that resampled figures span; the undefined ones (NaN) are dropped. n values were resampled."""
    defined = resampled[~np.isnan(resampled)]
    if n < 2 or not defined.size:
        return math.nan, math.nan
    low, high = np.quantile(defined, [tail(n), 1 - tail(n)])
    return float(low), float(high)


def most_coverage(n: int) -> float:
    """The probability with which n values have the median of their distribution between them: ``1 - 2^(1-n)``.

    >>> [most_coverage(n) for n in (2, 3, 5)]
    [0.5, 0.75, 0.9375]
    """
    return 1 - 2.0 ** (1 - n)
