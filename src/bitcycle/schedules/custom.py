"""Schedules from functions ``(step, total) -> bits``, or ``(step, total) -> strength``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from bitcycle._support.names import nearest
from bitcycle._support.text import short_repr
from bitcycle.schedules.base import Bits, Integers, Quantity, Values
from bitcycle.schedules.grammar import Node
from bitcycle.schedules.interface import Schedule
from bitcycle.schedules.registry import Reader, register

Function = Callable[[int, int], Bits]
StrengthFunction = Callable[[int, int], float]

FUNCTIONS: dict[str, Callable[[int, int], Any]] = {}
"""The user's functions by name. A spec refers to a function by its name and never imports anything."""

MAX_NAME = 100
"""The most letters of a function's name."""

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
        cls,
        function: Callable[[int, int], Any],
        name: str | None = None,
        quantity: Quantity = Quantity.BITS,
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
        if not (isinstance(chosen, str) and chosen.isidentifier() and len(chosen) <= MAX_NAME):
            raise ValueError(
                f"a function needs a name of letters, digits and _ in specs, got {short_repr(chosen)}: "
                'give one, as in bc.schedule(function, name="warm")'
            )
        known = FUNCTIONS.setdefault(chosen, function)
        if _definition(known) != _definition(function):
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
        if len(node.arguments) != 1:
            raise ValueError(f"{short_repr(node.text)}: call takes the name of a function, as in call:warm")
        [name] = node.texts()
        if name not in FUNCTIONS:
            hint = nearest(name, FUNCTIONS, "" if FUNCTIONS else "no function is known yet")
            function = name if name.isidentifier() and len(name) <= MAX_NAME else "..."
            raise ValueError(f"unknown function {short_repr(name)}: call bc.schedule({function}) once first; {hint}")
        return cls(name, FUNCTIONS[name], reader.quantity)

    def values(self, steps: Integers, total: int) -> Values:
        return np.array([self._value(int(step), total) for step in steps], self.quantity.dtype)

    def _value(self, step: int, total: int) -> Any:
        value = self.function(step, total)
        return self.quantity.encode(
            self.quantity.validate(value, f"the value of {self.name} at step {step} of {total}")
        )

    def limits(self, total: int) -> tuple[Bits, Bits]:
        histogram = self.histogram(total)
        ascending: list[Bits] = [bits for bits in histogram if bits is not None]
        if None in histogram:
            ascending.append(None)
        return ascending[0], ascending[-1]

    def __str__(self) -> str:
        return f"{CALL}:{self.name}"


def _definition(function: object) -> object:
    """Return what identifies a function: its definition, which a notebook executes again, or else the object itself.

    A closure can make one definition several functions.
    """
    if isinstance(function, FunctionType) and function.__closure__ is None:
        code = function.__code__.replace(co_filename="", co_firstlineno=1, co_linetable=b"")  # wherever it is written
        return code, function.__defaults__, function.__kwdefaults__
    return function
