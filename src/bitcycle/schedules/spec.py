"""Specs: schedules written as text. This table is the reference for the grammar.

| spec                                       | schedule                                                               |
|--------------------------------------------|------------------------------------------------------------------------|
| ``full``                                   | full precision throughout                                              |
| ``static:8``                               | eight bits throughout                                                  |
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
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from bitcycle._support.names import nearest
from bitcycle.schedules.base import Bits, Schedule, positive
from bitcycle.schedules.combinators import Deficit, Delay, Join, Moment, Window
from bitcycle.schedules.constant import Constant
from bitcycle.schedules.custom import Custom, Function
from bitcycle.schedules.cyclic import SHAPES, SHORT_SHAPES, TEN, Cyclic
from bitcycle.schedules.profiles import PROFILES, Profile, defaults

T = TypeVar("T")

DEFAULT_CYCLES = 8
"""The number of cycles of a spec that names none."""

_COMBINATORS = ("deficit", "delay", "join")


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
            f"a schedule must be a spec such as 'CR:3-8' or a function (step, total) -> bits, got {spec!r}"
        )
    open_parts = _Open(bits, cycles)
    parsed = _parse(spec, open_parts)
    if bits is not None and not open_parts.used_bits:
        raise ValueError(f"{spec!r} leaves no bits open: drop bits={bits!r}, or remove the bits from the spec")
    if cycles is not None and not open_parts.used_cycles:
        raise ValueError(f"{spec!r} leaves no cycles open: drop cycles={cycles!r}, or remove the cycles from the spec")
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
            raise ValueError(f"bits must be a pair (q_min, q_max) such as (3, 8), got {self.bits!r}") from None
        return low, high

    def take_cycles(self) -> int:
        self.used_cycles = True
        return DEFAULT_CYCLES if self.cycles is None else self.cycles


def _parse(text: str, open_parts: _Open) -> Schedule:
    text = text.strip()
    call = re.fullmatch(r"(\w+)\s*\((.*)\)", text, re.DOTALL)
    if call is None:
        if "(" in text or ")" in text:
            raise ValueError(f"{text!r}: unbalanced parentheses")
        return _leaf(text, open_parts)
    name, arguments = call.group(1), _split(call.group(2), text)
    if name not in _COMBINATORS:
        raise ValueError(f"unknown combinator {name!r}; {nearest(name, _COMBINATORS)}")
    if name == "deficit":
        if len(arguments) < 2:
            raise ValueError(f"{text!r}: a deficit takes windows and a schedule, as in deficit(3@0.0..0.25, static:8)")
        return Deficit(tuple(_window(window) for window in arguments[:-1]), _parse(arguments[-1], open_parts))
    if name == "delay":
        if len(arguments) != 2:
            raise ValueError(f"{text!r}: a delay takes a moment and a schedule, as in delay(0.25, CR:3-8)")
        return Delay(_moment(arguments[0]), _parse(arguments[1], open_parts))
    parts = tuple(_parse(part, open_parts) for part in arguments[::2])
    return Join(parts, tuple(_moment(moment) for moment in arguments[1::2]))


def _split(arguments: str, whole: str) -> list[str]:
    """Split at the commas outside of inner parentheses."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise ValueError(f"{whole!r}: unbalanced parentheses")
    return [part.strip() for part in parts]


def _leaf(text: str, open_parts: _Open) -> Schedule:
    name, *fields = (field.strip() for field in text.split(":"))
    if name == "full":
        _check_end(fields, text, "full")
        return Constant(None)
    if name == "static":
        if len(fields) != 1:
            raise ValueError(f"{text!r}: a static schedule takes one width, as in static:8")
        return Constant(_whole(fields[0], "bits"))
    if name == "call":
        if len(fields) != 1:
            raise ValueError(f"{text!r}: call takes the name of a function, as in call:warm")
        return Custom.named(fields[0])
    return _cyclic(name, fields, text, open_parts)


def _cyclic(name: str, fields: list[str], text: str, open_parts: _Open) -> Schedule:
    profile, shape, single = _parts_of_name(name)
    low_high = _bits(fields.pop(0), text) if fields and "=" not in fields[0] else open_parts.take_bits(name)
    settings: dict[str, str] = {}
    for key, value in (_setting(field, text) for field in fields):
        if key in settings:
            raise ValueError(f"{text!r} sets {key} twice")
        settings[key] = value
    if single:
        if "cycles" in settings:
            raise ValueError(f"{text!r}: a single rise or fall has no cycles to set")
        cycles = 1
    elif "cycles" in settings:
        cycles = _whole(settings.pop("cycles"), "cycles")
    else:
        cycles = open_parts.take_cycles()
    known = ("cycles", *defaults(profile))
    for key in settings:
        if key not in known:
            raise ValueError(f"{text!r}: profile {profile} has no parameter {key!r}; {nearest(key, known)}")
    parameters = {key: _number(value, key) for key, value in settings.items()}
    return Cyclic(Profile.of(profile, **parameters), shape, *low_high, cycles=cycles)


def _parts_of_name(name: str) -> tuple[str, str, bool]:
    """Return the profile, the shape, and whether it is a single rise or fall."""
    if name in TEN:
        return *TEN[name], False
    profile, _, shape = name.partition("-")
    if profile in PROFILES and (shape in SHAPES or shape in SHORT_SHAPES):
        return profile, SHORT_SHAPES.get(shape, shape), shape.startswith(("rise", "fall"))
    every = [f"{profile}-{shape}" for profile in PROFILES for shape in (*SHAPES, *SHORT_SHAPES)]
    known = f"expected full, static:N, {', '.join(TEN)}, PROFILE-SHAPE such as linear-fall, {', '.join(_COMBINATORS)}"
    raise ValueError(f"unknown schedule {name!r}; {nearest(name, ['full', 'static', *TEN, *every], known)}")


def _window(text: str) -> Window:
    match = re.fullmatch(r"\s*(.+?)\s*@\s*(.+?)\s*\.\.\s*(.+?)\s*", text)
    if match is None:
        raise ValueError(f"a window is written bits@start..stop, as in 3@0.0..0.25 or 3@0..16000, got {text!r}")
    bits: Bits = None if match.group(1) == "full" else positive(_whole(match.group(1), "bits"), "bits")
    return Window(_moment(match.group(2)), _moment(match.group(3)), bits)


def _bits(text: str, whole: str) -> tuple[int, int]:
    match = re.fullmatch(r"([^-]+)-(.+)", text)
    if match is None:
        raise ValueError(f"{whole!r}: bits are written q_min-q_max, as in 3-8, got {text!r}")
    return _whole(match.group(1), "q_min"), _whole(match.group(2), "q_max")


def _setting(text: str, whole: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{whole!r}: a setting is written key=value, as in cycles=8, got {text!r}")
    return key.strip(), value.strip()


def _whole(text: str, what: str) -> int:
    return _read(text, int, f"{what} must be an integer, got {text!r}")


def _number(text: str, what: str) -> float:
    return _read(text, float, f"{what} must be a number, got {text!r}")


def _moment(text: str) -> Moment:
    kind: Callable[[str], Moment] = int if re.fullmatch(r"[+-]?\d+", text.strip()) else float
    return _read(
        text, kind, f"a moment of training must be a step such as 1000 or a fraction such as 0.25, got {text!r}"
    )


def _read(text: str, kind: Callable[[str], T], message: str) -> T:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(message) from None


def _check_end(fields: list[str], text: str, name: str) -> None:
    if fields:
        raise ValueError(f"{text!r}: nothing may follow {name}")
