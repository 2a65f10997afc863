"""Cyclic schedules: a profile, a number of cycles, and how the cycles follow one another.

With ``k`` the cycle of a step and ``z`` its place there, from integer arithmetic so that no stub cycle is left over,

    k = (step * cycles) // total        z = ((step * cycles) % total) / total

a shape turns the profile ``g`` into ``f(k, z)``, and ``bits = rint(q_min + (q_max - q_min) * f)``, half to even.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.names import nearest
from bitcycle.schedules.base import Bits, Schedule, positive
from bitcycle.schedules.profiles import Profile

Floats = NDArray[np.float64]
Growth = Callable[[Floats], Floats]


def _repeated(g: Growth, rising: NDArray[np.bool_], z: Floats) -> Floats:
    return g(z)


def _triangular_h(g: Growth, rising: NDArray[np.bool_], z: Floats) -> Floats:
    return g(np.where(rising, z, 1 - z))


def _triangular_v(g: Growth, rising: NDArray[np.bool_], z: Floats) -> Floats:
    up = g(z)
    return np.where(rising, up, 1 - up)


def _fall_h(g: Growth, rising: NDArray[np.bool_], z: Floats) -> Floats:
    return g(1 - z)


def _fall_v(g: Growth, rising: NDArray[np.bool_], z: Floats) -> Floats:
    return 1 - g(z)


SHAPES: dict[str, Callable[[Growth, NDArray[np.bool_], Floats], Floats]] = {
    "repeated": _repeated,  # every cycle rises
    "triangular-h": _triangular_h,  # falls mirrored in time, rises, falls, ...
    "triangular-v": _triangular_v,  # falls mirrored in height, rises, falls, ...
    "fall-h": _fall_h,  # one fall over all of training
    "fall-v": _fall_v,
}

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
"""The paper's ten, by name. For cosine and linear the two reflections coincide."""

_NAME_OF = {parts: name for name, parts in TEN.items()}


@dataclass(frozen=True)
class Cyclic(Schedule):
    """A profile between q_min and q_max, repeated or triangular, or a single fall.

    >>> dip = Cyclic(Profile.of("cosine"), "triangular-h", 3, 8, cycles=2)
    >>> [dip(step, 8) for step in range(8)], str(dip)
    ([8, 7, 6, 4, 3, 4, 6, 7], 'CT:3-8:cycles=2')
    """

    profile: Profile
    shape: str
    q_min: int
    q_max: int
    cycles: int = 8

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(f"unknown shape {self.shape!r}; {nearest(self.shape, SHAPES)}")
        object.__setattr__(self, "q_min", positive(self.q_min, "q_min"))
        object.__setattr__(self, "q_max", positive(self.q_max, "q_max"))
        object.__setattr__(self, "cycles", positive(self.cycles, "the number of cycles"))
        if self.q_min > self.q_max:
            raise ValueError(
                f"q_min {self.q_min} is above q_max {self.q_max}: give the smaller first, "
                f"as in bits=({self.q_max}, {self.q_min})"
            )
        if self.shape.startswith("triangular") and self.cycles % 2:
            raise ValueError(
                f"a triangular schedule needs an even number of cycles, not {self.cycles}: it would end at q_min. "
                f"Take {self.cycles + 1}, or for a single fall over all of training "
                f"'{self.profile.name}-fall:{self.q_min}-{self.q_max}'"
            )
        if self.shape.startswith("fall") and self.cycles != 1:
            raise ValueError(f"a single fall has one cycle, not {self.cycles}; for several use a triangular schedule")

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        cycle, remainder = np.divmod(steps * self.cycles, total)
        f = SHAPES[self.shape](self.profile, cycle % 2 == 1, remainder / total)
        return np.rint(self.q_min + (self.q_max - self.q_min) * f).astype(np.int64)

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self.q_min, self.q_max

    def __str__(self) -> str:
        name = _NAME_OF.get((self.profile.name, self.shape), f"{self.profile.name}-{self.shape}")
        spec = f"{name}:{self.q_min}-{self.q_max}"
        if not self.shape.startswith("fall"):
            spec += f":cycles={self.cycles}"
        return spec + "".join(f":{key}={value!r}" for key, value in self.profile.changed().items())
