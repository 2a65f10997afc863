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
    with np.errstate(over="ignore"):  # the largest float cannot be rounded up
        rounded = np.ldexp(np.round(fractions, _DIGITS), exponents)
    return np.where(np.isfinite(rounded), rounded, array)


def scaled(values: ArrayLike) -> Floats:
    """Divide values by the power of two above their largest, so that squares neither overflow nor underflow.

    The division is exact.

    >>> scaled([-3.0, 6.0]).tolist()
    [-0.375, 0.75]
    """
    array: Floats = np.asarray(values, dtype=np.float64)
    return np.ldexp(array, -power_of_two(array))


def power_of_two(values: ArrayLike) -> int:
    """Return the exponent of the power of two above the largest finite magnitude; 0 if that is 0 or there is none.

    >>> power_of_two([-3.0, 6.0])
    3
    """
    array: Floats = np.asarray(values, dtype=np.float64)
    return int(np.frexp(np.abs(array).max(initial=0.0, where=np.isfinite(array)))[1])
