"""Schedules from functions ``(step, total) -> bits``, or ``(step, total) -> strength``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from bitcycle._support.names import nearest
from bitcycle._support.text import short_repr
from bitcycle.schedules.base import Bits, Integers, Quantity, Values, width_of
from bitcycle.schedules.grammar import Node, Reader, register
from bitcycle.schedules.interface import Schedule

Function = Callable[[int, int], Bits]
StrengthFunction = Callable[[int, int], float]

FUNCTIONS: dict[str, Callable[[int, int], Any]] = {}
"""The user's functions by name. A spec refers to a function by its name and never imports anything."""

CALL = "call"


@register
@dataclass(frozen=True)
class Custom(Schedule):
    """A user's function, named in specs as ``call:name``.

    Args:
        name: The name in specs.
        function: Returns the bits, or ``None`` for full precision, at ``(step, total)``; or the strength.
        quantity: Bits or strength.

    Example:
        >>> def gentle(step, total):
        ...     return 8 if step < 10 else 4
        >>> s = Custom.of(gentle)
        >>> s(9, 100), s(10, 100), str(s)
        (8, 4, 'call:gentle')
    """

    name: str
    function: Callable[[int, int], Any] = field(repr=False, compare=False)
    quantity: Quantity = Quantity.BITS

    quantities = (Quantity.BITS, Quantity.STRENGTH)

    @classmethod
    def of(
        cls, function: Callable[[int, int], Any], name: str | None = None, quantity: Quantity = Quantity.BITS
    ) -> Custom:
        """Return the schedule of a function and make it known to specs.

        Args:
            function: The function ``(step, total) -> value``.
            name: Its name in specs: letters, digits and underscores; by default the function's own name.
            quantity: What it returns.

        Raises:
            ValueError: If the function has no name that a spec can hold, or another function has that name.
        """
        chosen = name if name is not None else getattr(function, "__name__", None)
        if not (isinstance(chosen, str) and chosen.isidentifier()):
            raise ValueError(
                f"a function needs a name of letters, digits and _ in specs, got {short_repr(chosen)}: "
                'give one, as in bc.schedule(function, name="warm")'
            )
        if _definition(FUNCTIONS.setdefault(chosen, function)) != _definition(function):
            raise ValueError(
                f"another function is already named {short_repr(chosen)}: "
                f'give this one its own name, as in bc.schedule(function, name="{chosen}_2")'
            )
        return cls(chosen, function, quantity)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return (CALL,)

    @classmethod
    def parse(cls, node: Node, reader: Reader) -> Schedule:
        if len(node.fields) != 1:
            raise ValueError(f"{short_repr(node.text)}: call takes the name of a function, as in call:warm")
        [name] = node.fields
        if name not in FUNCTIONS:
            hint = nearest(name, FUNCTIONS, "" if FUNCTIONS else "no function is known yet")
            raise ValueError(f"unknown function {short_repr(name)}: call bc.schedule(function) once first; {hint}")
        return cls(name, FUNCTIONS[name], reader.quantity)

    def values(self, steps: Integers, total: int) -> Values:
        values = []
        for step in steps.tolist():
            what = f"the value of {self.name} at step {step} of {total}"
            values.append(width_of(self.quantity.validate(self.function(step, total), what)))
        return np.array(values, self.quantity.dtype)

    def limits(self, total: int) -> tuple[Bits, Bits]:
        ascending = list(self.histogram(total))
        return ascending[0], ascending[-1]

    def __str__(self) -> str:
        return f"{CALL}:{self.name}"


def _definition(function: object) -> object:
    """Return what identifies a function: its definition, which a notebook executes again, unless it is a closure."""
    if isinstance(function, FunctionType) and function.__closure__ is None:
        return function.__code__, function.__defaults__, function.__kwdefaults__
    return function
