"""Schedules without a shape: one value, full precision, or two neighbouring widths in a constant mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bitcycle._support.text import short_repr
from bitcycle.schedules.base import FULL_SPEC, FULL_WIDTH, MAX_BITS, Bits, Integers, Quantity, Values
from bitcycle.schedules.grammar import Node, Reader, is_number, parse_float, parse_int, register
from bitcycle.schedules.interface import Schedule

STATIC = "static"


@register
@dataclass(frozen=True)
class Constant(Schedule):
    """One value for all of training: ``static:8`` is eight bits, ``full`` is full precision; ``0.5`` is a strength.

    Args:
        value: The width, or ``None`` for full precision; or the strength.
        quantity: What the value is.

    Example:
        >>> Constant(8)(0, 100), Constant(None)(0, 100)
        (8, None)
    """

    value: Bits | float
    quantity: Quantity = Quantity.BITS

    quantities = (Quantity.BITS, Quantity.STRENGTH)
    is_static = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", self.quantity.validate(self.value))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return FULL_SPEC, STATIC

    @classmethod
    def reads(cls, name: str, quantity: Quantity) -> bool:
        return is_number(name) if quantity is Quantity.STRENGTH else name in cls.names()

    @classmethod
    def parse(cls, node: Node, reader: Reader) -> Schedule:
        if node.name != STATIC:
            if node.fields:
                raise ValueError(f"{short_repr(node.text)}: nothing may follow {node.name}")
            return cls(None if node.name == FULL_SPEC else float(node.name), reader.quantity)
        if len(node.fields) != 1:
            raise ValueError(f"{short_repr(node.text)}: a static schedule takes one width, as in static:8")
        [text] = node.fields
        if "." not in text:
            return cls(parse_int(text, "bits"))
        bits = parse_float(text, "bits")
        return cls(int(bits)) if bits.is_integer() else Mixed(bits)

    def values(self, steps: Integers, total: int) -> Values:
        return np.full(steps.shape, FULL_WIDTH if self.value is None else self.value, self.quantity.dtype)

    @property
    def bits(self) -> Bits:
        """The width, or ``None`` for full precision."""
        assert not isinstance(self.value, float), "a strength has no bits"
        return self.value

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self.bits, self.bits

    def __str__(self) -> str:
        if self.quantity is Quantity.STRENGTH:
            return str(int(self.value)) if self.value in (0, 1) else repr(self.value)
        return FULL_SPEC if self.value is None else f"{STATIC}:{self.value}"


DECIMALS = 6
"""Decimals of a mean width. Steps times millionths of a bit fit into 64 bits."""

_PARTS = 10**DECIMALS


@register
@dataclass(frozen=True)
class Mixed(Schedule):
    """Two neighbouring widths in turn, spread evenly over training so that their mean is a given number of bits.

    With ``low`` the integer part of the bits and ``s`` the rest, a step has ``low + 1`` bits where ``t s + 1/2``
    reaches the next integer, as in Bresenham's line:

        bits(t) = low + floor((t + 1) s + 1/2) - floor(t s + 1/2)

    The first ``t`` steps have ``rint(t s)`` steps at the higher width, whatever ``t`` is. It is a static width between
    two integers, and thus the control at equal cost for a schedule: the same mean precision, but no cycles.

    Args:
        bits: The mean width, not an integer; it is rounded to six decimals.

    Raises:
        ValueError: If the bits are not a number between 1 and 16, or are an integer.

    Example:
        >>> s = Mixed(5.25)
        >>> [s(step, 8) for step in range(8)], s.mean_bits(8), str(s)
        ([5, 6, 5, 5, 5, 6, 5, 5], 5.25, 'static:5.25')
    """

    bits: float

    is_static = True

    def __post_init__(self) -> None:
        if isinstance(self.bits, bool) or not isinstance(self.bits, (int, float)) or not 1 <= self.bits <= MAX_BITS:
            raise ValueError(f"a mean width must be a number from 1 to {MAX_BITS}, got {short_repr(self.bits)}")
        rounded = round(float(self.bits), DECIMALS)
        if rounded == int(rounded):
            raise ValueError(
                f"a mean width must lie between two integers, got {short_repr(self.bits)}: use static:{int(rounded)}"
            )
        object.__setattr__(self, "bits", rounded)

    def values(self, steps: Integers, total: int) -> Values:
        return self._low + self._high_before(steps + 1) - self._high_before(steps)

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self._low, self._low + 1

    @property
    def _low(self) -> int:
        return math.floor(self.bits)

    def _high_before(self, steps: Integers) -> Integers:
        """Return the number of steps at the higher width among the first ``steps``."""
        parts = round((self.bits - self._low) * _PARTS)
        return (steps * parts + _PARTS // 2) // _PARTS

    def __str__(self) -> str:
        return f"{STATIC}:{self.bits:.{DECIMALS}f}".rstrip("0")
