"""Cyclic schedules: a profile, a number of cycles, and the direction in which each cycle follows the profile.

With ``k`` the cycle of a step and ``z`` the position in it, from integer arithmetic so that no partial cycle remains,

    k = (step * cycles) // total        z = ((step * cycles) % total) / total

a shape turns the profile ``g`` into ``f(k, z)``, and ``bits = rint(q_min + (q_max - q_min) * f)``, half to even. A
strength is not rounded: ``strength = low + (high - low) * f``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bitcycle._support.names import validate_name
from bitcycle._support.text import short_repr
from bitcycle.schedules.base import (
    DEFAULT_CYCLES,
    MAX_CYCLES,
    Bits,
    Floats,
    Integers,
    Quantity,
    Values,
    validate_integer,
)
from bitcycle.schedules.grammar import Node, Reader, parse_float, parse_int, parse_range, parse_settings, register
from bitcycle.schedules.interface import Schedule
from bitcycle.schedules.profiles import PROFILES, Profile

Shape = Callable[[Callable[[Floats], Floats], Integers, Floats], Floats]
"""The value f(k, z) of a profile g at a position of a cycle, called with g, k and z."""

SHAPES: dict[str, Shape] = {
    "repeated": lambda g, k, z: g(z),
    "triangular-h": lambda g, k, z: g(np.where(k % 2 == 1, z, 1 - z)),  # falls, rises, falls, ...
    "triangular-v": lambda g, k, z: np.where(k % 2 == 1, up := g(z), 1 - up),
    "fall-h": lambda g, k, z: g(1 - z),  # one fall over all of training
    "fall-v": lambda g, k, z: 1 - g(z),
}
"""The shapes by name: ``h`` reflects a fall horizontally (in time), ``v`` vertically (in height)."""

SHORT_SHAPES = {"rise": "repeated", "fall": "fall-h", "triangular": "triangular-h"}
"""Other names of a shape; ``rise`` is a single cycle of ``repeated``."""

TEN: dict[str, tuple[str, str]] = {
    "CR": ("cosine", "repeated"),
    "CT": ("cosine", "triangular-h"),
    "LR": ("linear", "repeated"),
    "LT": ("linear", "triangular-h"),
    "ER": ("exponential", "repeated"),
    "ETH": ("exponential", "triangular-h"),
    "ETV": ("exponential", "triangular-v"),
    "RR": ("rex", "repeated"),
    "RTH": ("rex", "triangular-h"),
    "RTV": ("rex", "triangular-v"),
}
"""The ten schedules of the paper: name -> (profile, shape). For cosine and linear the two reflections coincide."""

_NAME_OF = {parts: name for name, parts in TEN.items()}


@register
@dataclass(frozen=True)
class Cyclic(Schedule):
    """A profile between q_min and q_max, repeated or triangular, or a single fall.

    Args:
        profile: The growth curve.
        shape: A name of :data:`SHAPES`.
        q_min: Lowest width, or lowest strength.
        q_max: Highest width, or highest strength.
        cycles: Number of cycles over the whole run: even for triangular shapes, 1 for a fall.
        quantity: Bits or strength.

    Raises:
        ValueError: If the shape is unknown, q_min is above q_max, or the number of cycles does not fit the shape.

    Example:
        >>> dip = Cyclic(Profile.of("cosine"), "triangular-h", 3, 8, cycles=2)
        >>> [dip(step, 8) for step in range(8)], str(dip)
        ([8, 7, 6, 4, 3, 4, 6, 7], 'CT:3-8:cycles=2')
    """

    profile: Profile
    shape: str
    q_min: int | float
    q_max: int | float
    cycles: int = DEFAULT_CYCLES
    quantity: Quantity = Quantity.BITS

    quantities = (Quantity.BITS, Quantity.STRENGTH)

    def __post_init__(self) -> None:
        validate_name(self.shape, SHAPES, "shape")
        low, high = self.quantity.validate_limits(self.q_min, self.q_max)
        object.__setattr__(self, "q_min", low)
        object.__setattr__(self, "q_max", high)
        object.__setattr__(self, "cycles", validate_integer(self.cycles, "cycles", 1, MAX_CYCLES))
        if self.shape.startswith("triangular") and self.cycles % 2:
            raise ValueError(
                f"a triangular schedule needs an even number of cycles, got {self.cycles}: it would end at {low}. "
                f"Use {self.cycles + 1} cycles, or "
                f"'{self.profile.name}-fall:{low}-{high}' for a single fall over the whole run"
            )
        if self.shape.startswith("fall") and self.cycles != 1:
            raise ValueError(f"a single fall has 1 cycle, got {self.cycles}; for several use a triangular schedule")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return *TEN, *(f"{profile}-{shape}" for profile in PROFILES for shape in (*SHAPES, *SHORT_SHAPES))

    @classmethod
    def parse(cls, node: Node, reader: Reader) -> Schedule:
        profile, shape = TEN[node.name] if node.name in TEN else node.name.split("-", 1)
        has_range = bool(node.fields) and "=" not in node.fields[0]
        low, high = (
            parse_range(node.fields[0], node.text, reader.quantity) if has_range else reader.open_limits(node.name)
        )
        settings = parse_settings(node.fields[has_range:], node.text)
        if shape.startswith(("rise", "fall")):
            if "cycles" in settings:
                raise ValueError(f"{short_repr(node.text)}: a single rise or fall has no cycles to set")
            cycles = 1
        else:
            cycles = parse_int(settings.pop("cycles"), "cycles") if "cycles" in settings else reader.open_cycles()
        parameters = {key: parse_float(value, short_repr(key).strip("'")) for key, value in settings.items()}
        shape = SHORT_SHAPES.get(shape, shape)
        return cls(Profile.of(profile, **parameters), shape, low, high, cycles, reader.quantity)

    def values(self, steps: Integers, total: int) -> Values:
        cycle, remainder = np.divmod(steps * self.cycles, total)
        f = SHAPES[self.shape](self.profile, cycle, remainder / total)
        return self.quantity.fit(self.q_min + (self.q_max - self.q_min) * f, self.q_min, self.q_max)

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self.q_min, self.q_max  # type: ignore[return-value]  # asked of bits alone

    def __str__(self) -> str:
        single = self.shape.startswith("fall")
        if self.quantity is Quantity.BITS:
            name = _NAME_OF.get((self.profile.name, self.shape), f"{self.profile.name}-{self.shape}")
            limits = f":{self.q_min}-{self.q_max}"
        else:
            rise = self.shape == "repeated" and self.cycles == 1
            single |= rise
            name = f"{self.profile.name}-{'rise' if rise else self.shape}"
            limits = "" if (self.q_min, self.q_max) == (0, 1) else f":{self.q_min!r}-{self.q_max!r}"
        cycles = "" if single else f":cycles={self.cycles}"
        return name + limits + cycles + "".join(f":{key}={value!r}" for key, value in self.profile.changed().items())
