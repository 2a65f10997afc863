"""Floating-point rounding in statistics: differences that are rounding alone must not decide anything."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

NOISE = 1e-12
"""Relative to the values at hand, anything smaller is rounding."""

_DIGITS = 13


def significant(values: ArrayLike) -> Floats:
    """Round values to 13 significant digits, so that means that are equal on paper compare equal.

    >>> a, b = (0.1 + 0.2 + 0.3) / 3, (0.3 + 0.2 + 0.1) / 3
    >>> a == b, bool(significant(a) == significant(b))
    (False, True)
    """
    array: Floats = np.asarray(values, dtype=np.float64)
    fractions, exponents = np.frexp(array)
    return np.ldexp(np.round(fractions, _DIGITS), exponents)
