"""What schedules are made of: bits and strengths, their limits and their validation.

Full precision is ``None`` in Python. Arrays and costs count it as :data:`FULL_WIDTH` bits (:func:`width_of`); a spec
says :data:`FULL_SPEC` (:func:`write_bits`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from enum import Enum
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.text import short_repr

Bits = int | None
"""The width of a grid; ``None`` is full precision."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Values = NDArray[Any]
"""Widths as integers, or strengths as floats."""

FULL_WIDTH = 32
"""The number of bits that full precision counts as, in arrays of widths and in costs. No grid has as many."""

FULL_SPEC = "full"
"""Full precision in a spec."""

BLOCK = 1 << 16
"""Steps that are evaluated at once: the intermediate arrays of a block stay in the cache."""

# Limits. Whatever is within them is computed exactly and in bounded time; anything else is a ValueError.

MAX_BITS = 16
"""The largest width of a schedule: the largest that layers compute with."""

MAX_STEPS = 10**8
"""The largest number of steps: ten times the longest training runs there are. All of them can be evaluated."""

MAX_CYCLES = 10**6
"""The largest number of cycles. ``steps * cycles`` then fits into 64 bits."""

DEFAULT_CYCLES = 8
"""The number of cycles of a spec that names none."""

MAX_DEPTH = 50
"""How deep combinators may be nested."""

MAX_CHARACTERS = 10_000
"""The longest spec, as it is read and as ``str`` of a schedule writes it."""


def validate_integer(value: object, what: str, minimum: int = 1, maximum: int | None = None) -> int:
    """Return the value as an int between two limits, or raise a ValueError that names it."""
    try:
        number: int | None = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{what} must be an integer, got {short_repr(value)}")
    if number < minimum:
        raise ValueError(f"{what} must be {minimum} or more, got {short_repr(number)}")
    if maximum is not None and number > maximum:
        raise ValueError(f"{what} must be from {minimum} to {maximum}, got {short_repr(number)}")
    return number


def validate_steps(value: object, what: str = "total") -> int:
    """Return a number of steps as an int from 1 to :data:`MAX_STEPS`, or raise a ValueError that names it."""
    return validate_integer(value, what, 1, MAX_STEPS)


def validate_bits(bits: object, what: str = "bits", maximum: int = MAX_BITS) -> Bits:
    """Return bits that a grid can have: an int from 1 to ``maximum``, or ``None`` for full precision."""
    return None if bits is None else validate_integer(bits, what, 1, maximum)


def validate_strength(value: object, what: str = "strength") -> float:
    """Return a strength as a float from 0 to 1, or raise a ValueError that names it."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= 1:
        raise ValueError(f"{what} must be a number from 0 (full precision) to 1 (on the grid), got {short_repr(value)}")
    return number + 0.0  # -0.0 becomes 0.0, so that equal schedules have equal specs


def width_of(bits: Bits) -> int:
    """Return bits as a number to count with: full precision is :data:`FULL_WIDTH`."""
    return FULL_WIDTH if bits is None else bits


def bits_of(width: int) -> Bits:
    """Return a number that :func:`width_of` gives as bits."""
    return None if width == FULL_WIDTH else width


def write_bits(bits: Bits) -> str:
    """Return bits as a spec writes them: full precision is :data:`FULL_SPEC`."""
    return FULL_SPEC if bits is None else str(bits)


class Quantity(Enum):
    """What a schedule gives a value of: bits or strength. They differ in validation and rounding alone."""

    BITS = "bits"
    STRENGTH = "strength"

    def validate(self, value: object, what: str | None = None) -> Any:
        """Return a valid value: bits or ``None``, or a strength."""
        validate = validate_bits if self is _BITS else validate_strength
        return validate(value, what or self.value)

    def validate_limits(self, low: object, high: object) -> tuple[Any, Any]:
        """Return the lowest and the highest value of a curve. ``None`` is not one: a curve does not pass through it."""
        names = ("q_min", "q_max") if self is _BITS else ("the lowest strength", "the highest strength")
        limits: Any = tuple(
            validate_integer(value, name, 1, MAX_BITS) if self is _BITS else validate_strength(value, name)
            for value, name in zip((low, high), names, strict=True)
        )
        if limits[0] > limits[1]:
            raise ValueError(
                f"{names[0]} {limits[0]} is above {names[1]} {limits[1]}: give the smaller first, "
                f"as in {limits[1]}-{limits[0]}"
            )
        return limits

    @property
    def dtype(self) -> type[np.int64] | type[np.float64]:
        """The type of an array of values."""
        return np.int64 if self is _BITS else np.float64

    def fit(self, curve: Floats, low: float, high: float) -> Values:
        """Return the values of a curve between two limits: integers, half to even, or strengths within the limits."""
        return np.rint(curve).astype(np.int64) if self is _BITS else np.clip(curve, low, high)


_BITS = Quantity.BITS


def blocks_of_steps(stop: int) -> Iterator[Integers]:
    """Yield the steps before ``stop``, at most :data:`BLOCK` at once."""
    for first in range(0, stop, BLOCK):
        yield np.arange(first, min(first + BLOCK, stop), dtype=np.int64)
