"""The text of specs: calls, settings and numbers; and the kinds of schedules, which the reader finds by their names.

A new kind of schedule is one file: a frozen dataclass with the decorator :func:`register`, imported by
:mod:`bitcycle.schedules`. Specs then know it by its names, and the contract tests fail until they draw it, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bitcycle._support.names import nearest
from bitcycle._support.text import short_repr
from bitcycle.schedules.base import DEFAULT_CYCLES, MAX_CHARACTERS, MAX_DEPTH, Quantity
from bitcycle.schedules.interface import Schedule

# int and float read more than a spec should hold: digits of other scripts, underscores, "nan", thousands of digits.
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,6})?")
_RANGE = re.compile(rf"({_DECIMAL.pattern})\s*-\s*({_DECIMAL.pattern})")


@dataclass
class Node:
    """A name with its arguments: a call ``delay(0.25, CR)``, or ``CR:3-8:cycles=8`` with ``3-8`` and ``cycles=8``.

    Only the arguments of a call can be calls themselves.
    """

    text: str
    """As it is written, for messages."""
    name: str
    arguments: list[Node] = field(default_factory=list)
    """Of a call."""
    fields: list[str] = field(default_factory=list)
    """What follows the name after colons, where it is not a call."""
    is_call: bool = False

    def plain_text(self) -> str:
        """Return the text of an argument that must not be a call."""
        if self.is_call:
            raise ValueError(f"{short_repr(self.name)}(...) stands where a window or a moment of training should be")
        return self.text


def tree(text: str) -> Node:
    """Return the calls in a text as a tree, in one pass over the text."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"a spec may have {MAX_CHARACTERS:,} characters at most, got {len(text):,}")
    outermost = Node(text, "")
    open_calls = [outermost]
    position, after_call = 0, False
    for mark in re.finditer(r"[(),]", f"{text},"):  # a comma also ends the last argument
        part = text[position : mark.start()].strip()
        position = mark.end()
        if after_call and (part or mark[0] == "("):
            raise ValueError(
                f"{short_repr(text)}: nothing but a comma or a parenthesis may follow a closing parenthesis"
            )
        if mark[0] == "(":
            if len(open_calls) > MAX_DEPTH:
                raise ValueError(f"{short_repr(text)}: a schedule may be nested {MAX_DEPTH} deep at most")
            open_calls[-1].arguments.append(call := Node(f"{part}(...)", part, is_call=True))
            open_calls.append(call)
            continue
        if not after_call:
            name, *fields = (each.strip() for each in part.split(":"))
            open_calls[-1].arguments.append(Node(part, name, fields=fields))
        after_call = mark[0] == ")"
        if after_call:
            open_calls.pop()
            if not open_calls:
                raise ValueError(f"{short_repr(text)}: unbalanced parentheses")
    if len(open_calls) > 1:
        raise ValueError(f"{short_repr(text)}: unbalanced parentheses")
    if len(outermost.arguments) > 1:
        raise ValueError(f"{short_repr(text)}: commas separate the arguments of combinators")
    return outermost.arguments[0]


def parse_int(text: str, what: str) -> int:
    """Return the integer that a text is, or raise a ValueError that names it."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{what} must be an integer, got {short_repr(text)}")
    return int(text)


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    return _DECIMAL.fullmatch(text) is not None


def parse_float(text: str, what: str) -> float:
    """Return the number that a text is, or raise a ValueError that names it."""
    if not is_number(text):
        raise ValueError(f"{what} must be a number, got {short_repr(text)}")
    return float(text)


def parse_moment(text: str) -> int | float:
    """Return the moment of training that a text is: a step or a fraction."""
    if not is_number(text):
        raise ValueError(
            f"a moment of training must be a step such as 1000 or a fraction such as 0.25, got {short_repr(text)}"
        )
    return int(text) if _INTEGER.fullmatch(text) else float(text)


def parse_range(text: str, spec: str, quantity: Quantity) -> tuple[Any, Any]:
    """Return the two numbers of ``q_min-q_max``."""
    limits = _RANGE.fullmatch(text)
    of_bits = quantity is Quantity.BITS
    if limits is None:
        form = "bits are written q_min-q_max, as in 3-8" if of_bits else "strengths are written low-high, as in 0.2-1.0"
        raise ValueError(f"{short_repr(spec)}: {form}, got {short_repr(text)}")
    if of_bits:
        return parse_int(limits[1], "q_min"), parse_int(limits[2], "q_max")
    return float(limits[1]), float(limits[2])


def parse_settings(fields: list[str], spec: str) -> dict[str, str]:
    """Return the settings ``key=value`` of a spec."""
    settings: dict[str, str] = {}
    for each in fields:
        key, equals, value = (part.strip() for part in each.partition("="))
        if not equals:
            raise ValueError(
                f"{short_repr(spec)}: a setting is written key=value, as in cycles=8, got {short_repr(each)}"
            )
        if key in settings:
            raise ValueError(f"{short_repr(spec)} sets {short_repr(key).strip(chr(39))} twice")
        settings[key] = value
    return settings


Kind = TypeVar("Kind", bound=type[Schedule])

KINDS: list[type[Schedule]] = []
"""The registered kinds of schedules."""


def register(kind: Kind) -> Kind:
    """Register a kind of schedule, as a decorator of its class.

    Raises:
        ValueError: If another kind has one of its names.
    """
    taken = {name for known in KINDS for name in known.names()}
    for name in kind.names():
        if name in taken:
            raise ValueError(f"another kind of schedule is called {short_repr(name)}")
    KINDS.append(kind)
    return kind


@dataclass
class Reader:
    """Reads the specs of a quantity.

    Args:
        quantity: Bits or strength.
        bits: ``(q_min, q_max)`` for the parts of a spec that name no bits.
        cycles: Number of cycles for the parts of a spec that name none; 8 by default.
        used: Which of ``bits`` and ``cycles`` some part has needed.
    """

    quantity: Quantity
    bits: tuple[int, int] | None = None
    cycles: int | None = None
    used: set[str] = field(default_factory=set)

    def read(self, spec: str) -> Schedule:
        """Return the schedule of a spec."""
        return self.schedule(tree(spec))

    def schedule(self, node: Node) -> Schedule:
        """Return the schedule of a part of a spec."""
        kinds = [kind for kind in KINDS if kind.is_combinator == node.is_call and self.quantity in kind.quantities]
        for kind in kinds:
            if kind.reads(node.name, self.quantity):
                return kind.parse(node, self)
        known = [name for kind in kinds for name in kind.names()]
        if node.is_call:
            raise ValueError(f"unknown combinator {short_repr(node.name)}; {nearest(node.name, known)}")
        if self.quantity is Quantity.STRENGTH:
            raise ValueError(
                f"unknown strength {short_repr(node.text)}: write a number from 0 to 1, PROFILE-SHAPE such as "
                "linear-rise, or join(linear-rise, 0.5, 1)"
            )
        single = ", ".join(name for name in known if "-" not in name)
        combinators = ", ".join(name for kind in KINDS if kind.is_combinator for name in kind.names())
        forms = f"expected {single}, PROFILE-SHAPE such as linear-fall, or {combinators}"
        raise ValueError(f"unknown schedule {short_repr(node.name)}; {nearest(node.name, known, forms)}")

    def open_limits(self, name: str) -> tuple[Any, Any]:
        """Return the limits of a curve whose spec names none."""
        self.used.add("bits")
        if self.quantity is Quantity.STRENGTH:
            return 0.0, 1.0
        if self.bits is None:
            raise ValueError(f"{name} needs bits: write '{name}:3-8' or give bits=(3, 8)")
        try:
            low, high = self.bits
        except (TypeError, ValueError):
            raise ValueError(
                f"bits must be a pair (q_min, q_max) such as (3, 8), got {short_repr(self.bits)}"
            ) from None
        return low, high

    def open_cycles(self) -> int:
        """Return the number of cycles of a curve whose spec names none."""
        self.used.add("cycles")
        return DEFAULT_CYCLES if self.cycles is None else self.cycles
