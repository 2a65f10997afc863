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

from dataclasses import dataclass

from bitcycle.schedules.base import Floats, Integers, Quantity
from bitcycle.schedules.constant import Constant
from bitcycle.schedules.custom import Custom, StrengthFunction
from bitcycle.schedules.interface import Schedule
from bitcycle.schedules.registry import Reader


@dataclass(frozen=True)
class StrengthSchedule:
    """Strength as a function of the step and the total number of steps. It is immutable and compares by content.

    Args:
        curve: The same kinds of schedule as for bits, with strengths as values.
    """

    curve: Schedule

    def values(self, steps: Integers, total: int) -> Floats:
        """Return the strengths at the given steps, from 0 to ``total - 1``."""
        return self.curve.values(steps, total)

    def __call__(self, step: int, total: int) -> float:
        """Return the strength at a step. Past the end it keeps the value of the last step."""
        return float(self.curve.value_at(step, total))

    @property
    def is_constant(self) -> bool:
        """Whether the strength is the same throughout."""
        return isinstance(self.curve, Constant)

    def __str__(self) -> str:
        return str(self.curve)


FULL_STRENGTH = StrengthSchedule(Constant(1.0, Quantity.STRENGTH))


def strength(
    spec: str | float | StrengthFunction | StrengthSchedule | None, name: str | None = None
) -> StrengthSchedule:
    """Make a schedule of strength.

    Args:
        spec: A spec such as ``"join(linear-rise, 0.5, 1)"`` (the grammar is in :mod:`bitcycle.schedules.strengths`), a
            number, or a function ``(step, total) -> strength``. ``None`` is full strength throughout.
        name: The name of a function in specs; by default its own name.

    Returns:
        The schedule: a function ``(step, total) -> strength``.

    Raises:
        ValueError: The spec is not valid, a number is not from 0 to 1, or a function has no name.

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
        return StrengthSchedule(Reader(Quantity.STRENGTH).read(spec))
    if callable(spec):
        return StrengthSchedule(Custom.of(spec, name, Quantity.STRENGTH))
    return StrengthSchedule(Constant(spec, Quantity.STRENGTH))
