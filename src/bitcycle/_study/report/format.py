"""Numbers as text, the same everywhere in a report."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

from bitcycle._study.analysis import Estimate
from bitcycle._support.charts.scale import MINUS

NONE = "\N{EN DASH}"
"""Shown where there is no number."""


def decimals(values: Iterable[float], digits: int = 4) -> int:
    """Return the decimals that give the largest value this many significant digits.

    >>> decimals([0.9531, 0.91]), decimals([86.2]), decimals([1234.0])
    (4, 2, 0)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=1.0)
    if largest == 0:
        return digits - 1
    return min(12, max(0, digits - 1 - math.floor(math.log10(largest))))


def fixed(value: float, places: int, signed: bool = False) -> str:
    """Format a number with a fixed number of decimals and a true minus sign.

    >>> fixed(0.5, 2, signed=True), fixed(-0.5, 2) == MINUS + "0.50", fixed(float("nan"), 2) == NONE
    ('+0.50', True, True)
    """
    if not math.isfinite(value):
        return NONE
    text = f"{value:+.{places}f}" if signed else f"{value:.{places}f}"
    if float(text) == 0:  # no sign on zero
        text = text.lstrip("+-")
    return text.replace("-", MINUS)


def percent(share: float, places: int = 1) -> str:
    """Format a share as a percentage with a non-breaking space.

    >>> percent(0.3667).replace(chr(160), " ")
    '36.7 %'
    """
    return NONE if not math.isfinite(share) else fixed(100 * share, places) + "\u00a0%"


def interval(estimate: Estimate, places: int, signed: bool = False) -> str:
    """Format the 95 % interval of an estimate, or say that there is none.

    >>> interval(Estimate(0.5, 0.1, 0.3, 0.7), 1), interval(Estimate(0.5, *[float("nan")] * 3), 1)
    ('0.3 to 0.7', 'no interval')
    """
    if not has_interval(estimate):
        return "no interval" if math.isfinite(estimate.mean) else NONE
    return f"{fixed(estimate.low, places, signed)} to {fixed(estimate.high, places, signed)}"


def has_interval(estimate: Estimate) -> bool:
    """Whether there were enough seeds for an interval."""
    return math.isfinite(estimate.low) and math.isfinite(estimate.high)


def p_value(p: float) -> str:
    """Format a p-value.

    >>> p_value(0.0312), p_value(0.0000001)
    ('0.031', '< 0.001')
    """
    if not math.isfinite(p):
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def duration(seconds: float) -> str:
    """Format a time in at most two units.

    >>> duration(0.4), duration(48), duration(754), duration(11100)
    ('0.4 s', '48 s', '12 min 34 s', '3 h 5 min')
    """
    if not math.isfinite(seconds):
        return NONE
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min" if whole % 3600 // 60 else f"{whole // 3600} h"


def moment(text: str) -> str:
    """Format an ISO time to the minute; any other text is returned unchanged.

    >>> moment("2026-03-01T12:30:59"), moment("at noon")
    ('2026-03-01 12:30', 'at noon')
    """
    try:
        return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return text


def count(number: int, noun: str) -> str:
    """Format a count with its noun.

    >>> count(1, "seed"), count(1200, "run")
    ('1 seed', '1,200 runs')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def listed(names: Iterable[str]) -> str:
    """Join names for a sentence.

    >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
    ('a, b and c', 'a', 'nothing')
    """
    everything = list(names) or ["nothing"]
    *front, last = everything
    return f"{', '.join(front)} and {last}" if front else last
