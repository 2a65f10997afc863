"""Schedules from functions ``(step, total) -> bits``."""

from __future__ import annotations

import functools
import hashlib
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, MethodType, ModuleType

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.names import nearest
from bitcycle._support.text import shown
from bitcycle.schedules.base import Bits, Schedule, array_width, checked_bits

Function = Callable[[int, int], Bits]

FUNCTIONS: dict[str, Function] = {}
"""The user's functions by name. A spec refers to a function by its name and never imports anything."""

MOST_LETTERS = 100
"""The most letters of a function's name that its name in specs has."""


@dataclass(frozen=True)
class Custom(Schedule):
    """A user's function, named in specs as ``call:name``. Functions of the same name have the same content.

    Args:
        name: The name in specs.
        function: Returns the bits, or ``None`` for full precision, at ``(step, total)``.

    Example:
        >>> def gentle(step, total):
        ...     return 8 if step < 10 else 4
        >>> s = Custom.of(gentle)
        >>> s(9, 100), s(10, 100), str(s)
        (8, 4, 'call:gentle')
    """

    name: str
    function: Function = field(repr=False, compare=False)

    @classmethod
    def of(cls, function: Function) -> Custom:
        """Return the schedule of a function and make it known to specs.

        The schedule has the function's name. A digest of the function's content is added if that is not a proper name
        (a lambda, a partial), or if another function already has it.

        Args:
            function: The function ``(step, total) -> bits``.

        Returns:
            The schedule.
        """
        name = str(getattr(function, "__name__", type(function).__name__))
        proper = name.isidentifier() and len(name) <= MOST_LETTERS
        if not proper or isinstance(function, functools.partial) or _differ(FUNCTIONS.get(name), function):
            letters = re.sub(r"\W", "", name)[:MOST_LETTERS]
            name = f"{letters}_{_digest(function)}"
        FUNCTIONS[name] = function
        return cls(name, function)

    @classmethod
    def named(cls, name: str) -> Custom:
        """Return the schedule of a function that is already known.

        Args:
            name: The name that ``str`` of its schedule shows after ``call:``.

        Returns:
            The schedule.

        Raises:
            ValueError: If no function of that name is known.
        """
        if name not in FUNCTIONS:
            hint = nearest(name, FUNCTIONS, "no function is known yet" if not FUNCTIONS else "")
            function = name if name.isidentifier() and len(name) <= MOST_LETTERS else "..."
            raise ValueError(f"unknown function {shown(name)}: call bc.schedule({function}) once first; {hint}")
        return cls(name, FUNCTIONS[name])

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        return np.array([self._width(int(step), total) for step in steps], dtype=np.int64)

    def limits(self, total: int) -> tuple[Bits, Bits]:
        histogram = self.histogram(total)
        ascending: list[Bits] = [bits for bits in histogram if bits is not None]
        if None in histogram:
            ascending.append(None)
        return ascending[0], ascending[-1]

    def _width(self, step: int, total: int) -> int:
        what = f"the value of {self.name} at step {step} of {total}"
        return array_width(checked_bits(self.function(step, total), what))

    def __str__(self) -> str:
        return f"call:{self.name}"


def _differ(one: Function | None, other: Function) -> bool:
    """Return whether two functions differ in content; a notebook may define the same function again."""
    return one is not None and one is not other and _digest(one) != _digest(other)


def _digest(function: object) -> str:
    return hashlib.sha256(repr(_content(function, ())).encode()).hexdigest()[:12]


def _content(value: object, inside: tuple[object, ...]) -> object:
    """Return what a function computes with, as something with a complete ``repr``: its code, its defaults, and the
    variables of its closure, of its module and of the object it is a method of.

    ``inside`` are the values that this one was found in. One that contains itself ends there, and functions of other
    modules are taken by their name.
    """
    if any(value is outer for outer in inside):
        return "itself"
    path = (*inside, value)
    match value:
        case None | bool() | int() | float() | complex() | str() | bytes():
            return value
        case list() | tuple():
            return [_content(each, path) for each in value]
        case dict():
            return [(_content(name, path), _content(each, path)) for name, each in value.items()]
        case CodeType():
            return (value.co_code, value.co_names, [_content(constant, path) for constant in value.co_consts])
        case functools.partial():
            return [_content(each, path) for each in (value.func, value.args, value.keywords)]
        case MethodType():
            return [_content(each, path) for each in (value.__func__, value.__self__)]
        case FunctionType():
            first = next((each for each in path if isinstance(each, FunctionType)), value)
            if value.__module__ != first.__module__:
                return (value.__module__, value.__qualname__)
            used = {name: value.__globals__[name] for name in sorted(_names(value.__code__) & value.__globals__.keys())}
            cells = [_content_of_cell(cell, path) for cell in value.__closure__ or ()]
            parts = (value.__code__, value.__defaults__, value.__kwdefaults__, used)
            return [*(_content(each, path) for each in parts), cells]
        case ModuleType() | type():
            return value.__name__
    if callable(value) and hasattr(value, "__dict__"):
        return (type(value).__qualname__, _content(type(value).__call__, path), _content(vars(value), path))
    try:
        return pickle.dumps(value)  # only compared, never loaded
    except Exception:  # whatever it is, it is then known by its address at least
        return repr(value)


def _content_of_cell(cell: CellType, path: tuple[object, ...]) -> object:
    try:
        return _content(cell.cell_contents, path)
    except ValueError:  # a variable that has no value yet
        return "empty"


def _names(code: CodeType) -> set[str]:
    """Return the names that a function's code, and functions that are defined in it, may look up in its module."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)
