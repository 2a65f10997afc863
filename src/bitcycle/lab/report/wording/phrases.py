"""Parts of sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bitcycle.lab.format import aligned, count, listed
from bitcycle.lab.statistics.analysis import Correlation

MANY = 12
"""A sentence names no more settings than this; the table has them all."""


def settings_phrase(labels: Sequence[str]) -> str:
    """The names of settings; of many, only how many there are."""
    return listed(labels) if len(labels) <= MANY else count(len(labels), "setting")


def correlation_phrase(found: Correlation) -> str:
    """A correlation with what it is taken over and its interval."""
    over = f"{found.value:.2f} over {count(found.count, found.over.removesuffix('s'))}"
    if math.isnan(found.low):
        return f"{over} (no interval)"
    return f"{over} (95 % interval {found.low:.2f} to {found.high:.2f})"


def difference_phrase(low: float, high: float) -> str:
    """The bounds of a difference with their signs."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return "no interval"
    return " to ".join(aligned([low, high], 2, signed=True))


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[0].upper() + text[1:]
