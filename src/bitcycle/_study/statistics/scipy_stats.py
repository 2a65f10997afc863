"""scipy's statistics, which come with an extra."""

from __future__ import annotations

from types import ModuleType

from bitcycle._support.extras import need


def stats() -> ModuleType:
    """``scipy.stats``, or one line that says how to install it.

    >>> round(float(stats().norm.sf(1.96)), 3)
    0.025
    """
    return need("scipy.stats", "study", "statistics")
