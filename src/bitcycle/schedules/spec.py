"""Specs: schedules written as text. This table is the reference for the grammar.

| spec                                       | schedule                                                               |
|--------------------------------------------|------------------------------------------------------------------------|
| ``full``                                   | full precision throughout                                              |
| ``static:8``                               | eight bits throughout                                                  |
| ``static:5.62``                            | five and six bits in turn, 5.62 bits on average                        |
| ``CR:3-8:cycles=8``                        | one of the ten by name, q_min-q_max, cycles (default 8)                |
| ``RR:3-8:cycles=8:constant=0.5``           | parameters of the profile: ``rate`` for E, ``constant`` for R          |
| ``cosine-repeated:3-8:cycles=8``           | any registered profile with a shape: ``repeated``, ``triangular-h``,   |
|                                            | ``triangular-v`` (``triangular`` is ``-h``)                            |
| ``linear-rise:3-8``                        | a single rise over the whole run: one cycle of ``repeated``            |
| ``linear-fall:3-8``                        | a single fall; ``fall-h`` mirrors a rise in time, ``fall-v`` in height |
| ``deficit(3@0.0..0.25, static:8)``         | windows held at given bits (or ``full``), a schedule elsewhere         |
| ``deficit(3@0..1000, 4@2000..3000, full)`` | windows in steps: integers are steps, fractions have a decimal point   |
| ``delay(0.25, CR:3-8:cycles=8)``           | q_max for a quarter of training, then a schedule over the rest         |
| ``join(static:8, 0.5, LR:3-6:cycles=4)``   | schedules one after the other, with the moments between them           |
| ``call:warm``                              | the user's function ``warm(step, total)``, after ``bc.schedule(warm)`` |
|                                            | has registered it; a spec never imports anything                       |

A spec may omit bits and cycles; the arguments ``bits`` and ``cycles`` then apply to every part that does.
``str(schedule)`` writes the canonical spec, and parsing it gives an equal schedule.

Numbers are written in the digits 0 to 9. Bits are from 1 to 16, cycles from 1 to a million, steps up to 10^12. A spec
has at most 10,000 characters, and its combinators are nested at most 50 deep. Reading it takes time linear in its
length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bitcycle._support.names import nearest
from bitcycle._support.text import shown
from bitcycle.schedules.base import MOST_CHARACTERS, MOST_DEPTH, Bits, Schedule
from bitcycle.schedules.combinators import Deficit, Delay, Join, Moment, Window
from bitcycle.schedules.constant import Constant, Mixed
from bitcycle.schedules.custom import Custom, Function
from bitcycle.schedules.cyclic import SHAPES, SHORT_SHAPES, TEN, Cyclic
from bitcycle.schedules.profiles import PROFILES, Profile, defaults

DEFAULT_CYCLES = 8
"""The number of cycles of a spec that names none."""

_COMBINATORS = ("deficit", "delay", "join")

# int and float read more than a spec should hold: digits of other scripts, underscores, "nan", thousands of digits.
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,6})?")


def schedule(
    spec: str | Schedule | Function,
    bits: tuple[int, int] | None = None,
    cycles: int | None = None,
) -> Schedule:
    """Make a schedule.

    Args:
        spec: A spec such as ``"CR:3-8"`` (the grammar is in :mod:`bitcycle.schedules.spec`), or a function
            ``(step, total) -> bits``. A schedule is returned unchanged.
        bits: ``(q_min, q_max)`` for the parts of the spec that name no bits.
        cycles: Number of cycles for the parts of the spec that name none; 8 by default.

    Returns:
        The schedule: a function ``(step, total) -> bits``.

    Raises:
        ValueError: If the spec is not valid or incomplete, or if it leaves no bits or cycles open but they are given.

    Example:
        >>> schedule("RTH", bits=(3, 8), cycles=8) == schedule("RTH:3-8:cycles=8")
        True
        >>> schedule("delay(0.1, CR)", bits=(4, 8))(0, 100)
        8
        >>> schedule(lambda step, total: 4 if step < 10 else 8)(0, 100)
        4
    """
    if not isinstance(spec, str):
        if bits is not None or cycles is not None:
            raise ValueError("bits and cycles complete a spec; a schedule or a function takes neither")
        if isinstance(spec, Schedule):
            return spec
        if callable(spec):
            return Custom.of(spec)
        raise ValueError(
            f"a schedule must be a spec such as 'CR:3-8' or a function (step, total) -> bits, got {shown(spec)}"
        )
    open_parts = _Open(bits, cycles)
    parsed = _parse(spec, open_parts)
    if bits is not None and not open_parts.used_bits:
        raise ValueError(f"{shown(spec)} leaves no bits open: drop the argument bits, or remove the bits from the spec")
    if cycles is not None and not open_parts.used_cycles:
        raise ValueError(
            f"{shown(spec)} leaves no cycles open: drop the argument cycles, or remove the cycles from the spec"
        )
    return parsed


def complete(spec: str, bits: tuple[int, int], cycles: int) -> Schedule:
    """Make a schedule like :func:`schedule`, but accept bits and cycles that the spec does not need.

    Args:
        spec: A spec; in a list of specs, only some may leave bits or cycles open.
        bits: ``(q_min, q_max)`` for the parts of the spec that name no bits.
        cycles: Number of cycles for the parts of the spec that name none.

    Returns:
        The schedule.

    Example:
        >>> [str(complete(spec, (3, 8), 2)) for spec in ("CR", "static:8")]
        ['CR:3-8:cycles=2', 'static:8']
    """
    return _parse(spec, _Open(bits, cycles))


@dataclass
class _Open:
    """The bits and cycles that complete a spec, and whether they were used."""

    bits: tuple[int, int] | None
    cycles: int | None
    used_bits: bool = False
    used_cycles: bool = False

    def take_bits(self, name: str) -> tuple[int, int]:
        self.used_bits = True
        if self.bits is None:
            raise ValueError(f"{name} needs bits: write '{name}:3-8' or give bits=(3, 8)")
        try:
            low, high = self.bits
        except (TypeError, ValueError):
            raise ValueError(f"bits must be a pair (q_min, q_max) such as (3, 8), got {shown(self.bits)}") from None
        return low, high

    def take_cycles(self) -> int:
        self.used_cycles = True
        return DEFAULT_CYCLES if self.cycles is None else self.cycles


def _parse(text: str, open_parts: _Open) -> Schedule:
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"a spec may have {MOST_CHARACTERS:,} characters at most, got {len(text):,}")
    return _built(tree(text), open_parts)


@dataclass
class Call:
    """A combinator as it is written: its name and its arguments, which are text or calls themselves."""

    name: str
    arguments: list[str | Call] = field(default_factory=list)


def tree(text: str) -> str | Call:
    """Return the calls in a text as a tree, in one pass over the text."""
    outermost = Call("")
    open_calls = [outermost]
    position, after_call = 0, False
    for mark in re.finditer(r"[(),]", f"{text},"):  # a comma also ends the last argument
        part = text[position : mark.start()].strip()
        position = mark.end()
        if after_call and (part or mark[0] == "("):
            raise ValueError(f"{shown(text)}: nothing but a comma or a parenthesis may follow a closing parenthesis")
        if mark[0] == "(":
            if len(open_calls) > MOST_DEPTH:
                raise ValueError(f"{shown(text)}: a schedule may be nested {MOST_DEPTH} deep at most")
            open_calls[-1].arguments.append(call := Call(part))
            open_calls.append(call)
            continue
        if not after_call:
            open_calls[-1].arguments.append(part)
        after_call = mark[0] == ")"
        if after_call:
            open_calls.pop()
            if not open_calls:
                raise ValueError(f"{shown(text)}: unbalanced parentheses")
    if len(open_calls) > 1:
        raise ValueError(f"{shown(text)}: unbalanced parentheses")
    if len(outermost.arguments) > 1:
        raise ValueError(f"{shown(text)}: commas separate the arguments of {', '.join(_COMBINATORS)}")
    return outermost.arguments[0]


def _built(node: str | Call, open_parts: _Open) -> Schedule:
    if isinstance(node, str):
        return _leaf(node, open_parts)
    name, arguments = node.name, node.arguments
    if name not in _COMBINATORS:
        raise ValueError(f"unknown combinator {shown(name)}; {nearest(name, _COMBINATORS)}")
    if name == "deficit":
        if len(arguments) < 2:
            raise ValueError("a deficit takes windows and a schedule, as in deficit(3@0.0..0.25, static:8)")
        return Deficit(
            tuple(_window(plain_argument(window)) for window in arguments[:-1]), _built(arguments[-1], open_parts)
        )
    if name == "delay":
        if len(arguments) != 2:
            raise ValueError("a delay takes a moment and a schedule, as in delay(0.25, CR:3-8)")
        return Delay(moment_of(plain_argument(arguments[0])), _built(arguments[1], open_parts))
    parts = tuple(_built(part, open_parts) for part in arguments[::2])
    return Join(parts, tuple(moment_of(plain_argument(moment)) for moment in arguments[1::2]))


def plain_argument(argument: str | Call) -> str:
    """Return an argument that must not be a call."""
    if isinstance(argument, Call):
        raise ValueError(f"{shown(argument.name)}(...) stands where a window or a moment of training should be")
    return argument


def _leaf(text: str, open_parts: _Open) -> Schedule:
    name, *fields = (part.strip() for part in text.split(":"))
    if name == "full":
        _check_end(fields, text, "full")
        return Constant(None)
    if name == "static":
        if len(fields) != 1:
            raise ValueError(f"{shown(text)}: a static schedule takes one width, as in static:8")
        return _static(fields[0])
    if name == "call":
        if len(fields) != 1:
            raise ValueError(f"{shown(text)}: call takes the name of a function, as in call:warm")
        return Custom.named(fields[0])
    return _cyclic(name, fields, text, open_parts)


def _static(text: str) -> Schedule:
    """Return one width, or a mixture of two if the width has a decimal point."""
    if "." not in text:
        return Constant(whole_of(text, "bits"))
    bits = number_of(text, "bits")
    return Constant(int(bits)) if bits.is_integer() else Mixed(bits)


def _cyclic(name: str, fields: list[str], text: str, open_parts: _Open) -> Schedule:
    profile, shape, single = parts_of_name(name)
    low_high = _bits(fields.pop(0), text) if fields and "=" not in fields[0] else open_parts.take_bits(name)
    settings: dict[str, str] = {}
    for key, value in (setting_of(each, text) for each in fields):
        if key in settings:
            raise ValueError(f"{shown(text)} sets {shown(key).strip(chr(39))} twice")
        settings[key] = value
    if single:
        if "cycles" in settings:
            raise ValueError(f"{shown(text)}: a single rise or fall has no cycles to set")
        cycles = 1
    elif "cycles" in settings:
        cycles = whole_of(settings.pop("cycles"), "cycles")
    else:
        cycles = open_parts.take_cycles()
    known = ("cycles", *defaults(profile))
    for key in settings:
        if key not in known:
            raise ValueError(f"{shown(text)}: profile {profile} has no parameter {shown(key)}; {nearest(key, known)}")
    parameters = {key: number_of(value, key) for key, value in settings.items()}
    return Cyclic(Profile.of(profile, **parameters), shape, *low_high, cycles=cycles)


def parts_of_name(name: str) -> tuple[str, str, bool]:
    """Return the profile, the shape, and whether it is a single rise or fall."""
    if name in TEN:
        return *TEN[name], False
    profile, _, shape = name.partition("-")
    if profile in PROFILES and (shape in SHAPES or shape in SHORT_SHAPES):
        return profile, SHORT_SHAPES.get(shape, shape), shape.startswith(("rise", "fall"))
    every = [f"{profile}-{shape}" for profile in PROFILES for shape in (*SHAPES, *SHORT_SHAPES)]
    known = f"expected full, static:N, {', '.join(TEN)}, PROFILE-SHAPE such as linear-fall, {', '.join(_COMBINATORS)}"
    raise ValueError(f"unknown schedule {shown(name)}; {nearest(name, ['full', 'static', *TEN, *every], known)}")


def _window(text: str) -> Window:
    width, at, span = (part.strip() for part in text.partition("@"))
    start, dots, stop = (part.strip() for part in span.partition(".."))
    if not (at and dots and width and start and stop):
        raise ValueError(f"a window is written bits@start..stop, as in 3@0.0..0.25 or 3@0..16000, got {shown(text)}")
    bits: Bits = None if width == "full" else whole_of(width, "bits")
    return Window(moment_of(start), moment_of(stop), bits)


def _bits(text: str, whole: str) -> tuple[int, int]:
    low, _, high = (part.strip() for part in text.partition("-"))
    if not (low and high):
        raise ValueError(f"{shown(whole)}: bits are written q_min-q_max, as in 3-8, got {shown(text)}")
    return whole_of(low, "q_min"), whole_of(high, "q_max")


def setting_of(text: str, whole: str) -> tuple[str, str]:
    """Return the key and the value of a setting."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{shown(whole)}: a setting is written key=value, as in cycles=8, got {shown(text)}")
    return key.strip(), value.strip()


def whole_of(text: str, what: str) -> int:
    """Return the integer that a text is, or raise a ValueError that names it."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{what} must be an integer, got {shown(text)}")
    return int(text)


def number_of(text: str, what: str) -> float:
    """Return the number that a text is, or raise a ValueError that names it."""
    if not DECIMAL.fullmatch(text):
        raise ValueError(f"{what} must be a number, got {shown(text)}")
    return float(text)


def moment_of(text: str) -> Moment:
    """Return the moment of training that a text is: a step or a fraction."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if DECIMAL.fullmatch(text):
        return float(text)
    raise ValueError(f"a moment of training must be a step such as 1000 or a fraction such as 0.25, got {shown(text)}")


def _check_end(fields: list[str], text: str, name: str) -> None:
    if fields:
        raise ValueError(f"{shown(text)}: nothing may follow {name}")
