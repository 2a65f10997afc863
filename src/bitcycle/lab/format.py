"""Numbers and errors as text, the same in sentences, tables and plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bitcycle.lab.statistics.analysis import Estimate

MINUS = "\N{MINUS SIGN}"
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


def aligned(values: Sequence[float], digits: int, signed: bool = False) -> list[str]:
    """Format numbers for a sentence with the same decimals: ``digits`` significant digits of the largest.

    >>> aligned([0.975, 0.98], 3), aligned([-0.0111, 0.00502], 2, signed=True), aligned([1234.5, 7.0], 3)
    (['0.975', '0.980'], ['-0.011', '+0.005'], ['1234', '7'])
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if largest and not 1e-6 < largest < 1e9:
        return [f"{value:+.{digits}g}" if signed else f"{value:.{digits}g}" for value in values]
    places = decimals(values, digits)
    return [fixed(value, places, signed).replace(MINUS, "-") for value in values]  # terminals show sentences too


def number(value: float) -> str:
    """Format a number with three significant digits.

    >>> number(0.92345), number(85.59)
    ('0.923', '85.6')
    """
    return f"{value:.3g}"


def percent(share: float, places: int = 1) -> str:
    """Format a share as a percentage.

    >>> percent(0.3667), percent(0.3667, 0)
    ('36.7 %', '37 %')
    """
    return f"{fixed(100 * share, places)} %" if math.isfinite(share) else NONE


def cost_phrase(relative_cost: float) -> str:
    """Say how a cost compares with that of the baseline.

    >>> [cost_phrase(cost) for cost in (0.54, 1.0, 1.12, 15.8)]
    ['46 % less cost', 'the same cost', '12 % more cost', '15.8 times the cost']
    >>> [cost_phrase(cost) for cost in (0.996, 2, 1234.5, float("nan"))]
    ['0.4 % less cost', '2 times the cost', '1,234 times the cost', 'an unknown cost']
    """
    if not math.isfinite(relative_cost):
        return "an unknown cost"
    if relative_cost >= 2:
        return f"{number(relative_cost) if relative_cost < 100 else f'{relative_cost:,.0f}'} times the cost"
    change = abs(1 - relative_cost)
    if change < 0.0005:
        return "the same cost"
    places = 1 if change < 0.01 or 0.995 <= change < 1 else 0
    return f"{percent(change, places)} {'less' if relative_cost < 1 else 'more'} cost"


def interval(estimate: Estimate, places: int, signed: bool = False) -> str:
    """Format the 95 % interval of an estimate, or say that there is none.

    >>> from bitcycle.lab.statistics.analysis import Estimate
    >>> interval(Estimate(0.5, 0.1, 0.3, 0.7), 1), interval(Estimate(0.5, *[float("nan")] * 3), 1)
    ('0.3 to 0.7', 'no interval')
    """
    if not has_interval(estimate):
        return "no interval" if math.isfinite(estimate.mean) else NONE
    return f"{fixed(estimate.low, places, signed)} to {fixed(estimate.high, places, signed)}"


def has_interval(estimate: Estimate) -> bool:
    """Whether there were enough seeds for an interval."""
    return math.isfinite(estimate.low) and math.isfinite(estimate.high)


def p_value(p: float, named: bool = False) -> str:
    """Format a p-value, with its name where it stands in a sentence.

    >>> p_value(0.0312), p_value(0.0000001), p_value(0.0312, named=True), p_value(0.0000001, named=True)
    ('0.031', '< 0.001', 'p = 0.031', 'p < 0.001')
    """
    if not math.isfinite(p):
        return "p unknown" if named else NONE
    if p < 0.001:
        return "p < 0.001" if named else "< 0.001"
    return f"p = {p:.3f}" if named else f"{p:.3f}"


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


def short(number: int) -> str:
    """Return a large number with three decimals and a unit: k, M, G or T.

    Args:
        number: The number, not negative.

    Returns:
        The number with its unit; numbers below 1,000 are unchanged.

    Example:
        >>> short(950), short(301_989_888), short(44_392_251_392)
        ('950', '301.990 M', '44.392 G')
    """
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3f} {unit}"
    return str(number)


def format_error(error: BaseException) -> str:
    """Return the type and the message of an error in one line.

    >>> format_error(ValueError("two\\nlines"))
    'ValueError: two lines'
    """
    return " ".join(f"{type(error).__name__}: {error}".split())
