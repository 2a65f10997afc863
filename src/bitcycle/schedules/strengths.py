"""Schedules of strength: functions (step, total steps) -> a number from 0 (full precision) to 1 (on the grid).

| spec                                       | strength                                                             |
|--------------------------------------------|----------------------------------------------------------------------|
| ``0.5``                                    | the same throughout                                                  |
| ``linear-rise``                            | a rise from 0 to 1 over the whole run, along any registered profile  |
| ``cosine-fall:0.2-1.0``                    | a fall from 1 to 0.2; the shapes are those of precision schedules    |
| ``linear-repeated:0.0-1.0:cycles=4``       | four rises                                                           |
| ``join(0, 0.25, linear-rise, 0.75, 1)``    | one after the other, with the moments between them                   |
| ``call:warm``                              | the user's function ``warm(step, total)``, after                     |
|                                            | ``bc.schedules.strength(warm)`` has registered it                    |

``str`` writes the canonical spec, and parsing it gives an equal schedule.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.text import shown
from bitcycle.schedules.base import MOST_CHARACTERS, MOST_CYCLES, MOST_DEPTH, positive, whole
from bitcycle.schedules.combinators import Moment, boundaries_of_join, stretches
from bitcycle.schedules.custom import Custom
from bitcycle.schedules.cyclic import SHAPES, Rising
from bitcycle.schedules.profiles import Profile
from bitcycle.schedules.spec import (
    DECIMAL,
    DEFAULT_CYCLES,
    Call,
    moment_of,
    number_of,
    parts_of_name,
    plain_argument,
    setting_of,
    tree,
    whole_of,
)

Function = Callable[[int, int], float]
_LIMITS = re.compile(rf"({DECIMAL.pattern})-({DECIMAL.pattern})")


def check_strength(value: object, what: str = "strength") -> float:
    """Return a strength as a float.

    Raises:
        ValueError: It is no number from 0 to 1. ``what`` names the value in the message.
    """
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= 1:
        raise ValueError(f"{what} must be a number from 0 (full precision) to 1 (on the grid), got {shown(value)}")
    return number + 0.0


class StrengthSchedule(ABC):
    """Strength as a function of the step and the total number of steps. It is immutable and compares by content."""

    @abstractmethod
    def values(self, steps: NDArray[np.int64], total: int) -> NDArray[np.float64]:
        """Return the strengths at the given steps, from 0 to ``total - 1``."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the canonical spec."""

    @property
    def depth(self) -> int:
        """How deep joins are nested."""
        return 0

    def __call__(self, step: int, total: int) -> float:
        """Return the strength at a step. Past the end it keeps the value of the last step."""
        total, step = positive(total, "total"), whole(step, "step")
        if step < 0:
            raise ValueError(f"step must be 0 or more, got {shown(step)}")
        return float(self.values(np.array([min(step, total - 1)], dtype=np.int64), total)[0])


@dataclass(frozen=True)
class Level(StrengthSchedule):
    """The same strength throughout."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", check_strength(self.value))

    def values(self, steps: NDArray[np.int64], total: int) -> NDArray[np.float64]:
        return np.full(steps.shape, self.value)

    def __str__(self) -> str:
        return str(int(self.value)) if self.value in (0, 1) else repr(self.value)


FULL_STRENGTH = Level(1.0)


@dataclass(frozen=True)
class Curve(StrengthSchedule):
    """A profile between two strengths: a rise, a fall, or several cycles."""

    profile: Profile
    shape: str
    low: float = 0.0
    high: float = 1.0
    cycles: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", check_strength(self.low, "the lowest strength"))
        object.__setattr__(self, "high", check_strength(self.high, "the highest strength"))
        object.__setattr__(self, "cycles", positive(self.cycles, "cycles", MOST_CYCLES))
        if self.low > self.high:
            raise ValueError(f"the lowest strength {self.low} is above the highest {self.high}: give the smaller first")
        if SHAPES[self.shape].rising is Rising.ODD and self.cycles % 2:
            raise ValueError(f"a triangular strength needs an even number of cycles, got {self.cycles}")

    def values(self, steps: NDArray[np.int64], total: int) -> NDArray[np.float64]:
        f = SHAPES[self.shape](self.profile, self.cycles, steps, total)
        return np.clip(self.low + (self.high - self.low) * f, self.low, self.high)

    def __str__(self) -> str:
        single = self.shape == "repeated" and self.cycles == 1
        spec = f"{self.profile.name}-{'rise' if single else self.shape}"
        spec += "" if (self.low, self.high) == (0, 1) else f":{self.low!r}-{self.high!r}"
        spec += "" if single or SHAPES[self.shape].rising is Rising.NONE else f":cycles={self.cycles}"
        return spec + "".join(f":{key}={value!r}" for key, value in self.profile.changed().items())


@dataclass(frozen=True)
class Joined(StrengthSchedule):
    """Strengths one after the other, each stretched over its own part of training."""

    parts: tuple[StrengthSchedule, ...]
    at: tuple[Moment, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2 or len(self.at) != len(self.parts) - 1:
            raise ValueError("a join of strengths needs one moment between every two, as in join(linear-rise, 0.5, 1)")
        object.__setattr__(self, "at", boundaries_of_join(self.at))
        if self.depth > MOST_DEPTH or len(str(self)) > MOST_CHARACTERS:
            raise ValueError(f"a strength may be nested {MOST_DEPTH} deep and be {MOST_CHARACTERS:,} characters long")

    @property
    def depth(self) -> int:
        return 1 + max(part.depth for part in self.parts)

    def values(self, steps: NDArray[np.int64], total: int) -> NDArray[np.float64]:
        values = np.empty(steps.shape)
        for part, start, stop in stretches(self.parts, self.at, total):
            inside = (steps >= start) & (steps < stop)
            if inside.any():
                values[inside] = part.values(steps[inside] - start, stop - start)
        return values

    def __str__(self) -> str:
        rest = "".join(f", {moment!r}, {part}" for moment, part in zip(self.at, self.parts[1:], strict=True))
        return f"join({self.parts[0]}{rest})"


@dataclass(frozen=True)
class Called(StrengthSchedule):
    """A user's function, named in specs as ``call:name``."""

    name: str
    function: Function = field(repr=False, compare=False)

    def values(self, steps: NDArray[np.int64], total: int) -> NDArray[np.float64]:
        return np.array([self._value(int(step), total) for step in steps], dtype=np.float64)

    def _value(self, step: int, total: int) -> float:
        return check_strength(self.function(step, total), f"the strength {self.name} at step {step} of {total}")

    def __str__(self) -> str:
        return f"call:{self.name}"


def strength(spec: str | float | Function | StrengthSchedule | None) -> StrengthSchedule:
    """Make a schedule of strength.

    Args:
        spec: A spec such as ``"join(linear-rise, 0.5, 1)"`` (the grammar is in :mod:`bitcycle.schedules.strengths`), a
            number, or a function ``(step, total) -> strength``. ``None`` is full strength throughout.

    Returns:
        The schedule: a function ``(step, total) -> strength``.

    Raises:
        ValueError: The spec is not valid, or a number is not from 0 to 1.

    Example:
        >>> s = strength("join(linear-rise, 0.5, 1)")
        >>> [s(step, 8) for step in range(6)], str(s)
        ([0.0, 0.25, 0.5, 0.75, 1.0, 1.0], 'join(linear-rise, 0.5, 1)')
    """
    if spec is None:
        return FULL_STRENGTH
    if isinstance(spec, StrengthSchedule):
        return spec
    if isinstance(spec, str):
        if len(spec) > MOST_CHARACTERS:
            raise ValueError(f"a spec may have {MOST_CHARACTERS:,} characters at most, got {len(spec):,}")
        return _built(tree(spec))
    if callable(spec):
        function: Any = spec
        return Called(Custom.of(function).name, function)
    return Level(spec)


def _built(node: str | Call) -> StrengthSchedule:
    if isinstance(node, str):
        return _leaf(node)
    if node.name != "join":
        raise ValueError(f"strengths are combined by join, as in join(linear-rise, 0.5, 1), got {shown(node.name)}")
    parts = tuple(_built(part) for part in node.arguments[::2])
    return Joined(parts, tuple(moment_of(plain_argument(moment)) for moment in node.arguments[1::2]))


def _leaf(text: str) -> StrengthSchedule:
    if DECIMAL.fullmatch(text):
        return Level(float(text))
    name, *fields = (part.strip() for part in text.split(":"))
    if name == "call":
        custom: Any = Custom.named(fields[0] if len(fields) == 1 else "")
        return Called(custom.name, custom.function)
    try:
        profile, shape, single = parts_of_name(name)
    except ValueError:
        raise ValueError(
            f"unknown strength {shown(text)}: write a number from 0 to 1, PROFILE-SHAPE such as linear-rise, "
            "or join(linear-rise, 0.5, 1)"
        ) from None
    low, high = 0.0, 1.0
    if fields and "=" not in fields[0]:
        limits = _LIMITS.fullmatch(fields.pop(0))
        if limits is None:
            raise ValueError(f"{shown(text)}: strengths are written low-high, as in linear-rise:0.2-1.0")
        low, high = float(limits[1]), float(limits[2])
    settings = dict(setting_of(each, text) for each in fields)
    if len(settings) < len(fields) or (single and "cycles" in settings):
        raise ValueError(f"{shown(text)} sets something twice, or the cycles of a single rise or fall")
    cycles = 1 if single else whole_of(settings.pop("cycles", str(DEFAULT_CYCLES)), "cycles")
    parameters = {key: number_of(value, key) for key, value in settings.items()}
    return Curve(Profile.of(profile, **parameters), shape, low, high, cycles)
