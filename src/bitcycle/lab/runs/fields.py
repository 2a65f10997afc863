"""How the fields of a run are declared, and the values that users write for them: checked and in one form.

Values come from plan files, keywords in Python and options of commands. A parser takes the value and the name of what
it is given for, and returns the value in its canonical form. It raises a ValueError that names both if the value is
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from typing import Any

from bitcycle._support.text import short_repr
from bitcycle.schedules import Schedule
from bitcycle.schedules import schedule as as_schedule
from bitcycle.schedules import strength as as_strength
from bitcycle.schedules.base import MAX_BITS, MAX_STEPS

Parser = Callable[[Any, str], Any]

MAX_INTEGER = 2**63 - 1
"""The largest seed, and the largest integer among the options of a task."""


def string(value: Any, name: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, got {short_repr(value)}")
    return value


def flag(value: Any, name: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {short_repr(value)}")
    return value


def integer(least: int, most: int = MAX_STEPS) -> Parser:
    """Return the parser of an integer in a range.

    >>> integer(1)(3, "steps")
    3
    """

    def parse(value: Any, name: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an integer of {least} or more, got {short_repr(value)}")
        if value > most:
            raise ValueError(f"{name} must be from {least} to {most}, got {short_repr(value)}")
        return value

    return parse


def number(value: Any, name: str) -> float:
    """Return a number."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or (isinstance(value, int) and value > MAX_INTEGER)
    ):
        raise ValueError(f"{name} must be a number, got {short_repr(value)}")
    return float(value)


def one_of(choices: Sequence[str]) -> Parser:
    """Return the parser of a text that must be one of a few.

    >>> one_of(["best", "last"])("first", "test_weights")
    Traceback (most recent call last):
    ValueError: test_weights must be 'best' or 'last', got 'first'
    """

    def parse(value: Any, name: str) -> str:
        if value not in choices:
            raise ValueError(f"{name} must be {' or '.join(repr(str(choice)) for choice in choices)}, got {value!r}")
        return str(value)

    return parse


def spec(value: Any, name: str) -> str:
    """Return the canonical spec of a schedule; a width is a static schedule, and an empty text stays empty.

    >>> spec("4", "weights"), spec(4, "weights"), spec("LR:3-8", "weights"), spec("", "weights")
    ('static:4', 'static:4', 'LR:3-8:cycles=8', '')
    """
    if value == "" or isinstance(value, Schedule):
        return str(value)
    is_width = (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and value.isdecimal()
    )
    return str(as_schedule(f"static:{value}" if is_width else string(value, name)))


def strength_spec(value: Any, name: str) -> str:
    """Return the canonical spec of a strength; an empty text stays empty.

    >>> strength_spec("0.5", "strength"), strength_spec(0.5, "strength"), strength_spec("", "strength")
    ('0.5', '0.5', '')
    """
    return "" if value == "" else str(as_strength(value))


def gradient_bits(value: Any, name: str) -> int | str | None:
    """Return the bits of gradients: ``"max"``, a width, a schedule as its spec, or None for full precision.

    >>> [gradient_bits(value, "backward_bits") for value in ("max", "8", 8, "full", None, "CR:3-8")]
    ['max', 8, 8, None, None, 'CR:3-8:cycles=8']
    """
    if value in ("max", "full", None):
        return "max" if value == "max" else None
    if isinstance(value, Schedule) or (isinstance(value, str) and not value.isdecimal()):
        return str(as_schedule(value))
    width: int = integer(1, MAX_BITS)(int(value) if isinstance(value, str) else value, name)
    return width


def option_values(value: Any, name: str) -> dict[str, tuple[str, ...]]:
    """Return the options of a task as texts, each with one value or several.

    >>> option_values({"aggregation": ["full", "quantized"], "layers": 2}, "options")
    {'aggregation': ('full', 'quantized'), 'layers': ('2',)}
    """
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{name} must be a table, as in options = {{ aggregation = 'quantized' }}, got {short_repr(value)}"
        )
    return {key: tuple(_option(key, each) for each in as_list(values)) for key, values in value.items()}


def _option(name: str, value: Any) -> str:
    if not isinstance(value, (str, int, float)) or (isinstance(value, int) and abs(value) > MAX_INTEGER):
        raise ValueError(f"the option {short_repr(name)} must be a text or a number, got {short_repr(value)}")
    return str(value)


def as_list(value: Any) -> list[Any]:
    """Return several values as a list, and a single one as a list of it."""
    return [value] if isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__") else list(value)


def each_of(parse: Parser, one: str = "") -> Parser:
    """Return the parser of one value or several; ``one`` names a single one in messages.

    >>> each_of(integer(1))([2, 8], "cycles"), each_of(string, "a schedule")("CR", "schedules")
    ((2, 8), ('CR',))
    """
    return lambda value, name: tuple(parse(each, one or name) for each in as_list(value))


@dataclass(frozen=True)
class FieldInfo:
    """What is known about a field of a run, beside its name, type and default."""

    help: str
    """What the field sets, for the help of commands and the documentation of ``bitcycle.study``."""
    parse: Parser = string
    """Checks a value that a user has written, and returns its canonical form."""
    choices: tuple[str, ...] = ()
    """Values that shell completion proposes."""
    title: str = ""
    """Describes a value that is not the default in the title of a comparison; default: ``NAME VALUE``."""
    is_keyword: bool = True
    """Whether users set it by its name; plans have lists of tasks, schedules and seeds, and find out the sources."""
    is_compared: bool = False
    """Whether statistics compare runs that differ in it. A plan can have several values of such a field."""
    is_detail: bool = False
    """Whether it is left out of titles that differ without it."""
    is_in_name: bool = True
    """Whether it changes the result, and so the name of the run."""
    option: str = ""
    """The option of commands; default: made from the name."""


def declare(help: str, parse: Parser = string, default: Any = MISSING, **further: Any) -> Any:
    """Declare a field of a run; see :class:`FieldInfo` for the arguments. Without a default, every run must have it."""
    return field(default=default, metadata={"info": FieldInfo(help, parse, **further)})
