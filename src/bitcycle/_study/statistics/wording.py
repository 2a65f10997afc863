"""Figures and lists in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bitcycle._study.analysis import Correlation


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["CR"]), listed(["CR", "CT", "LR"])
    ('CR', 'CR, CT and LR')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def counted_noun(count: int, noun: str) -> str:
    """A number and what it counts.

    >>> counted_noun(1, "seed"), counted_noun(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def number(value: float) -> str:
    """Three significant figures.

    >>> number(0.92345), number(85.59)
    ('0.923', '85.6')
    """
    return f"{value:.3g}"


def percent(share: float) -> str:
    """A share in per cent.

    >>> percent(0.3667)
    '37 %'
    """
    return f"{100 * share:.0f} %"


def p_value(p: float) -> str:
    """A p-value.

    >>> p_value(0.0234), p_value(1e-7)
    ('p = 0.023', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def with_interval(found: Correlation) -> str:
    """A correlation with its interval.

    >>> with_interval(Correlation("Spearman", "runs", 0.713, 0.52, 0.84, 65))
    '0.71 over 65 runs (95 % interval 0.52 to 0.84)'
    """
    if math.isnan(found.low):
        return f"{found.value:.2f} over {found.count} {found.over} (no interval)"
    return f"{found.value:.2f} over {found.count} {found.over} (95 % interval {found.low:.2f} to {found.high:.2f})"
