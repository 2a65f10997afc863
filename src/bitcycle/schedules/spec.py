"""Specs: schedules written as text, and the one place that documents how.

| spec                                       | schedule                                                               |
|--------------------------------------------|------------------------------------------------------------------------|
| ``full``                                   | full precision throughout                                              |
| ``static:8``                               | eight bits throughout                                                  |
| ``CR:3-8:cycles=8``                        | one of the ten by name, q_min-q_max, cycles (8 unless given)           |
| ``RR:3-8:cycles=8:constant=0.5``           | parameters of the profile: ``rate`` of E, ``constant`` of R            |
| ``cosine-repeated:3-8:cycles=8``           | any registered profile with a shape: ``repeated``, ``triangular-h``,   |
|                                            | ``triangular-v`` (``triangular`` is ``-h``)                            |
| ``linear-rise:3-8``                        | a single rise over all of training: one cycle of ``repeated``          |
| ``linear-fall:3-8``                        | a single fall; ``fall-h`` mirrors a rise in time, ``fall-v`` in height |
| ``deficit(3@0.0..0.25, static:8)``         | windows held at given bits (or ``full``), the rest on a schedule       |
| ``deficit(3@0..1000, 4@2000..3000, full)`` | windows in steps: whole numbers are steps, fractions have a point      |
| ``delay(0.25, CR:3-8:cycles=8)``           | q_max for a quarter of training, then a schedule over the remainder    |
| ``join(static:8, 0.5, LR:3-6:cycles=4)``   | schedules one after the other, with the moments between them           |
| ``call:warm``                              | the user's function ``warm(step, total)``, once ``bc.schedule(warm)``  |
|                                            | has made it known; a spec never imports anything                       |

``bits`` and ``cycles`` may be left out of a spec and given as arguments instead; they apply to each part that leaves
them open. ``str(schedule)`` writes the canonical spec, and parsing it gives an equal schedule.
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
from bitcycle.schedules.profiles import PROFILES, Profile

T = TypeVar("T")

DEFAULT_CYCLES = 8

_COMBINATORS = ("deficit", "delay", "join")


def schedule(
    spec: str | Schedule | Function,
    bits: tuple[int, int] | None = None,
    cycles: int | None = None,
) -> Schedule:
    """The schedule that a spec, a function ``(step, total) -> bits`` or a schedule itself stands for.

    ``bits=(q_min, q_max)`` and ``cycles`` (8 if nobody says) fill in what the spec leaves open.

    >>> schedule("RTH", bits=(3, 8), cycles=8) == schedule("RTH:3-8:cycles=8")
    True
    >>> schedule("delay(0.1, CR)", bits=(4, 8))(0, 100)
    8
    """
    if not isinstance(spec, str):
        if bits is not None or cycles is not None:
            raise ValueError("bits and cycles complete a spec; a schedule or a function has its own")
        if isinstance(spec, Schedule):
            return spec
        if callable(spec):
            return Custom.of(spec)
        raise ValueError(f"a schedule is a spec such as 'CR:3-8', or a function (step, total) -> bits, not {spec!r}")
    open_parts = _Open(bits, cycles)
    made = _parse(spec, open_parts)
    if bits is not None and not open_parts.took_bits:
        raise ValueError(f"{spec!r} leaves no bits open: drop bits={bits!r} or take the bits out of the spec")
    if cycles is not None and not open_parts.took_cycles:
        raise ValueError(f"{spec!r} leaves no cycles open: drop cycles={cycles!r} or take the cycles out of the spec")
    return made


def complete(spec: str, bits: tuple[int, int], cycles: int) -> Schedule:
    """Like :func:`schedule`, for lists of specs of which only some leave bits or cycles open."""
    return _parse(spec, _Open(bits, cycles))


@dataclass
class _Open:
    """What fills the bits and cycles that a spec leaves open, and whether it was needed."""

    bits: tuple[int, int] | None
    cycles: int | None
    took_bits: bool = False
    took_cycles: bool = False

    def take_bits(self, name: str) -> tuple[int, int]:
        self.took_bits = True
        if self.bits is None:
            raise ValueError(f"{name} needs bits: write '{name}:3-8' or give bits=(3, 8)")
        try:
            low, high = self.bits
        except (TypeError, ValueError):
            raise ValueError(f"bits are a pair (q_min, q_max) such as (3, 8), not {self.bits!r}") from None
        return low, high

    def take_cycles(self) -> int:
        self.took_cycles = True
        return DEFAULT_CYCLES if self.cycles is None else self.cycles


def _parse(text: str, open_parts: _Open) -> Schedule:
    text = text.strip()
    call = re.fullmatch(r"(\w+)\s*\((.*)\)", text, re.DOTALL)
    if call is None:
        if "(" in text or ")" in text:
            raise ValueError(f"{text!r}: the parentheses do not close")
        return _leaf(text, open_parts)
    name, arguments = call.group(1), _split(call.group(2), text)
    if name not in _COMBINATORS:
        raise ValueError(f"unknown combinator {name!r}; {nearest(name, _COMBINATORS)}")
    if name == "deficit":
        if len(arguments) < 2:
            raise ValueError(f"{text!r}: a deficit is windows, then a schedule, as in deficit(3@0.0..0.25, static:8)")
        return Deficit(tuple(_window(window) for window in arguments[:-1]), _parse(arguments[-1], open_parts))
    if name == "delay":
        if len(arguments) != 2:
            raise ValueError(f"{text!r}: a delay is a moment and a schedule, as in delay(0.25, CR:3-8)")
        return Delay(_moment(arguments[0]), _parse(arguments[1], open_parts))
    parts = tuple(_parse(part, open_parts) for part in arguments[::2])
    return Join(parts, tuple(_moment(moment) for moment in arguments[1::2]))


def _split(arguments: str, whole: str) -> list[str]:
    """Split at the commas that stand outside of inner parentheses."""
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
        raise ValueError(f"{whole!r}: the parentheses do not close")
    return [part.strip() for part in parts]


def _leaf(text: str, open_parts: _Open) -> Schedule:
    name, *fields = (field.strip() for field in text.split(":"))
    if name == "full":
        _no_more(fields, text, "full")
        return Constant(None)
    if name == "static":
        if len(fields) != 1:
            raise ValueError(f"{text!r}: a static schedule has one width, as in static:8")
        return Constant(_whole(fields[0], "a width"))
    if name == "call":
        if len(fields) != 1:
            raise ValueError(f"{text!r}: a function is named as in call:warm")
        return Custom.named(fields[0])
    return _cyclic(name, fields, text, open_parts)


def _cyclic(name: str, fields: list[str], text: str, open_parts: _Open) -> Schedule:
    profile, shape, single = _parts_of_name(name)
    low_high = _bits(fields.pop(0), text) if fields and "=" not in fields[0] else open_parts.take_bits(name)
    settings: dict[str, str] = {}
    for key, value in (_setting(field, text) for field in fields):
        if key in settings:
            raise ValueError(f"{text!r} says {key} twice")
        settings[key] = value
    if single:
        if "cycles" in settings:
            raise ValueError(f"{text!r}: a single rise or fall has no cycles to set")
        cycles = 1
    elif "cycles" in settings:
        cycles = _whole(settings.pop("cycles"), "the number of cycles")
    else:
        cycles = open_parts.take_cycles()
    parameters = {key: _number(value, key) for key, value in settings.items()}
    return Cyclic(Profile.of(profile, **parameters), shape, *low_high, cycles=cycles)


def _parts_of_name(name: str) -> tuple[str, str, bool]:
    """Profile, shape, and whether it is a single rise or fall."""
    if name in TEN:
        return *TEN[name], False
    profile, _, shape = name.partition("-")
    if profile in PROFILES and (shape in SHAPES or shape in SHORT_SHAPES):
        return profile, SHORT_SHAPES.get(shape, shape), shape.startswith(("rise", "fall"))
    every = [f"{profile}-{shape}" for profile in PROFILES for shape in (*SHAPES, *SHORT_SHAPES)]
    known = f"known are full, static:N, {', '.join(TEN)}, PROFILE-SHAPE such as linear-fall, {', '.join(_COMBINATORS)}"
    raise ValueError(f"unknown schedule {name!r}; {nearest(name, ['full', 'static', *TEN, *every], known)}")


def _window(text: str) -> Window:
    match = re.fullmatch(r"\s*(.+?)\s*@\s*(.+?)\s*\.\.\s*(.+?)\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is not a window: write bits@start..stop, as in 3@0.0..0.25 or 3@0..16000")
    bits: Bits = None if match.group(1) == "full" else positive(_whole(match.group(1), "a width"), "a width")
    return Window(_moment(match.group(2)), _moment(match.group(3)), bits)


def _bits(text: str, whole: str) -> tuple[int, int]:
    match = re.fullmatch(r"([^-]+)-(.+)", text)
    if match is None:
        raise ValueError(f"{whole!r}: bits are written q_min-q_max, as in 3-8, not {text!r}")
    return _whole(match.group(1), "q_min"), _whole(match.group(2), "q_max")


def _setting(text: str, whole: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{whole!r}: {text!r} is not a setting; write it as key=value, such as cycles=8")
    return key.strip(), value.strip()


def _whole(text: str, what: str) -> int:
    return _read(text, int, f"{what} is a whole number, not {text!r}")


def _number(text: str, what: str) -> float:
    return _read(text, float, f"{what} is a number, not {text!r}")


def _moment(text: str) -> Moment:
    kind: Callable[[str], Moment] = int if re.fullmatch(r"[+-]?\d+", text.strip()) else float
    return _read(text, kind, f"{text!r} is not a moment of training: a step such as 1000, or a fraction such as 0.25")


def _read(text: str, kind: Callable[[str], T], otherwise: str) -> T:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(otherwise) from None


def _no_more(fields: list[str], text: str, name: str) -> None:
    if fields:
        raise ValueError(f"{text!r}: nothing follows {name}")
