"""Combinators: schedules made of other schedules (a deficit, a delay, a join).

A moment of training is a step (``int``) or a fraction of training (``float``): ``0.25`` is a quarter, ``16000`` a step.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bitcycle._support.text import short_repr
from bitcycle.schedules.base import (
    FULL_SPEC,
    MAX_STEPS,
    Bits,
    Integers,
    Quantity,
    Values,
    as_int,
    validate_bits,
    validate_step,
    width_of,
    write_bits,
)
from bitcycle.schedules.constant import Constant
from bitcycle.schedules.grammar import Node, parse_int, parse_moment, tree
from bitcycle.schedules.interface import Schedule
from bitcycle.schedules.registry import Reader, register

Moment = int | float
"""A step, or a fraction of training."""


class Piece(NamedTuple):
    """A part of training that follows one schedule."""

    schedule: Schedule
    start: int
    """The first step."""
    stop: int
    """The first step after it."""
    offset: int
    """The step that is step 0 of the schedule."""
    total: int
    """The number of steps that the schedule is stretched over."""


class Combinator(Schedule):
    """Schedules in consecutive pieces of training. Subclasses implement :meth:`pieces`."""

    is_combinator = True

    def __post_init__(self) -> None:
        tree(str(self))  # raises if it is nested too deep, or if its spec is longer than one that can be read

    @abstractmethod
    def pieces(self, total: int) -> list[Piece]:
        """Return the pieces that training consists of. Some may be empty.

        Args:
            total: Total number of training steps.
        """

    def values(self, steps: Integers, total: int) -> Values:
        values = np.empty(steps.shape, self.quantity.dtype)
        for piece in self.pieces(total):
            inside = (steps >= piece.start) & (steps < piece.stop)
            if inside.any():
                values[inside] = piece.schedule.values(steps[inside] - piece.offset, piece.total)
        return values

    def limits(self, total: int) -> tuple[Bits, Bits]:
        followed = [piece for piece in self.pieces(total) if piece.start < piece.stop]
        return _range_of(*(bits for piece in followed for bits in piece.schedule.limits(piece.total)))


@dataclass(frozen=True)
class Window:
    """A part of training that is held at given bits.

    Args:
        start: Where it begins: a step, or a fraction of training.
        stop: Where it ends, in the same unit; the step itself is not part of the window.
        bits: The width, or ``None`` for full precision.

    Raises:
        ValueError: If the window is empty, or mixes steps and fractions.

    Example:
        >>> str(Window(0.0, 0.25, 3)), Window(0.0, 0.25, 3).steps(1000)
        ('3@0.0..0.25', (0, 250))
    """

    start: Moment
    stop: Moment
    bits: Bits

    def __post_init__(self) -> None:
        start, stop = _validate_moments((self.start, self.stop), "the two ends of a window")
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "bits", validate_bits(self.bits))
        if start >= stop:
            raise ValueError(f"the window {self.span} is empty: its end must be after its start")

    @classmethod
    def parse(cls, argument: Node) -> Window:
        """Return the window of an argument of a spec."""
        text = argument.plain_text()
        width, at, span = (part.strip() for part in text.partition("@"))
        start, dots, stop = (part.strip() for part in span.partition(".."))
        if not (at and dots and width and start and stop):
            raise ValueError(
                f"a window is written bits@start..stop, as in 3@0.0..0.25 or 3@0..16000, got {short_repr(text)}"
            )
        bits = None if width == FULL_SPEC else parse_int(width, "bits")
        return cls(parse_moment(start), parse_moment(stop), bits)

    @property
    def span(self) -> str:
        """Start and end as in a spec."""
        return f"{self.start!r}..{self.stop!r}"

    def __str__(self) -> str:
        return f"{write_bits(self.bits)}@{self.span}"

    def steps(self, total: int) -> tuple[int, int]:
        """Return the first step, and the first one after the window.

        Raises:
            ValueError: If the window ends after step ``total``.
        """
        start, stop = (_step_of(moment, total) for moment in (self.start, self.stop))
        if stop > total:
            raise ValueError(f"the window {self.span} is outside a run of {total} steps")
        return start, stop


@register
@dataclass(frozen=True)
class Deficit(Combinator):
    """Windows of training held at given bits; another schedule applies elsewhere.

    Args:
        windows: Windows that do not overlap, all in steps or all in fractions of training.
        rest: The schedule outside of the windows.

    Raises:
        ValueError: If there is no window, if windows overlap, or if they mix steps and fractions.

    Example:
        >>> s = Deficit((Window(0.0, 0.25, 3),), Constant(8))
        >>> s(24, 100), s(25, 100), str(s)
        (3, 8, 'deficit(3@0.0..0.25, static:8)')
    """

    windows: tuple[Window, ...]
    rest: Schedule

    def __post_init__(self) -> None:
        if not self.windows:
            raise ValueError("a deficit needs at least one window, as in deficit(3@0.0..0.25, static:8)")
        if len({type(window.start) for window in self.windows}) > 1:
            raise ValueError("the windows of a deficit must be all in steps or all in fractions, got a mixture")
        ordered = tuple(sorted(self.windows, key=lambda window: window.start))
        for earlier, later in pairwise(ordered):
            if later.start < earlier.stop:
                raise ValueError(f"the windows {earlier.span} and {later.span} overlap")
        object.__setattr__(self, "windows", ordered)
        super().__post_init__()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return ("deficit",)

    @classmethod
    def parse(cls, node: Node, reader: Reader) -> Schedule:
        if len(node.arguments) < 2:
            raise ValueError("a deficit takes windows and a schedule, as in deficit(3@0.0..0.25, static:8)")
        *windows, rest = node.arguments
        return cls(tuple(Window.parse(window) for window in windows), reader.schedule(rest))

    def pieces(self, total: int) -> list[Piece]:
        pieces, position = [], 0
        for window in self.windows:
            start, stop = window.steps(total)
            pieces.append(Piece(self.rest, position, start, 0, total))
            pieces.append(Piece(Constant(window.bits), start, stop, 0, total))
            position = stop
        return [*pieces, Piece(self.rest, position, total, 0, total)]

    def limits(self, total: int) -> tuple[Bits, Bits]:
        for window in self.windows:
            window.steps(total)  # raises if it is outside of training, before training gets there
        return _range_of(*self.rest.limits(total), *(window.bits for window in self.windows))

    def __str__(self) -> str:
        return f"deficit({', '.join(map(str, self.windows))}, {self.rest})"


@register
@dataclass(frozen=True)
class Delay(Combinator):
    """The q_max of a schedule for the first part of training, then the schedule over the rest.

    Args:
        hold: Where the schedule begins: a step, or a fraction of training below 1.
        then: The schedule that follows, stretched over the rest of training.

    Example:
        >>> from bitcycle.schedules import schedule
        >>> s = Delay(0.5, schedule("LR:3-8:cycles=1"))
        >>> s(0, 100), s(49, 100), s(50, 100), s(99, 100), str(s)
        (8, 8, 3, 8, 'delay(0.5, LR:3-8:cycles=1)')
    """

    hold: Moment
    then: Schedule

    def __post_init__(self) -> None:
        object.__setattr__(self, "hold", _validate_moment(self.hold))
        if self.hold == 1.0 and isinstance(self.hold, float):
            raise ValueError("a delay of 1.0 leaves no steps for the schedule: it must be below 1.0")
        super().__post_init__()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return ("delay",)

    @classmethod
    def parse(cls, node: Node, reader: Reader) -> Schedule:
        if len(node.arguments) != 2:
            raise ValueError("a delay takes a moment and a schedule, as in delay(0.25, CR:3-8)")
        hold, then = node.arguments
        return cls(parse_moment(hold.plain_text()), reader.schedule(then))

    def pieces(self, total: int) -> list[Piece]:
        held = self._held(total)
        return [
            Piece(Constant(self.limits(total)[1]), 0, held, 0, total),
            Piece(self.then, held, total, held, total - held),
        ]

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self.then.limits(total - self._held(total))

    def _held(self, total: int) -> int:
        held = _step_of(self.hold, total)
        if held >= total and isinstance(self.hold, int):
            raise ValueError(f"a delay of {held} steps leaves no steps for the schedule in a run of {total} steps")
        return min(held, total - 1)

    def __str__(self) -> str:
        return f"delay({self.hold!r}, {self.then})"


@register
@dataclass(frozen=True)
class Join(Combinator):
    """Schedules one after the other, each stretched over its own part of training.

    Args:
        parts: Two schedules or more.
        at: Where each part after the first begins, in ascending order: all steps, or all fractions of training.

    Raises:
        ValueError: If the numbers of schedules and boundaries do not match, or the boundaries are not ascending.

    Example:
        >>> from bitcycle.schedules import schedule
        >>> s = Join((schedule("static:8"), schedule("LR:3-6:cycles=1")), at=(0.5,))
        >>> s(49, 100), s(50, 100), s(99, 100), str(s)
        (8, 3, 6, 'join(static:8, 0.5, LR:3-6:cycles=1)')
    """

    parts: tuple[Schedule, ...]
    at: tuple[Moment, ...]

    quantities = (Quantity.BITS, Quantity.STRENGTH)

    def __post_init__(self) -> None:
        if len(self.parts) < 2 or len(self.at) != len(self.parts) - 1:
            raise ValueError(
                "a join needs one boundary between every two schedules, as in join(static:8, 0.5, static:4), "
                f"got {len(self.parts)} schedules and {len(self.at)} boundaries"
            )
        at = _validate_moments(self.at, "the boundaries of a join")
        if any(later <= earlier for earlier, later in pairwise(at)):
            raise ValueError(f"the boundaries of a join must be ascending, got {_listed(at)}")
        object.__setattr__(self, "at", at)
        super().__post_init__()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return ("join",)

    @classmethod
    def parse(cls, node: Node, reader: Reader) -> Schedule:
        parts = tuple(reader.schedule(part) for part in node.arguments[::2])
        return cls(parts, tuple(parse_moment(moment.plain_text()) for moment in node.arguments[1::2]))

    @property
    def quantity(self) -> Quantity:
        return self.parts[0].quantity

    def pieces(self, total: int) -> list[Piece]:
        inner = [_step_of(moment, total) for moment in self.at]
        if inner[-1] > total:
            raise ValueError(f"the boundary {inner[-1]} of a join is outside a run of {total} steps")
        ends = zip(self.parts, [0, *inner], [*inner, total], strict=True)
        return [Piece(part, start, stop, start, stop - start) for part, start, stop in ends]

    def __str__(self) -> str:
        rest = "".join(f", {moment!r}, {part}" for moment, part in zip(self.at, self.parts[1:], strict=True))
        return f"join({self.parts[0]}{rest})"


def _validate_moment(value: object) -> Moment:
    """Return a moment: a fraction from 0 to 1, or a step of 0 or more."""
    if isinstance(value, (float, np.floating)):
        if not 0 <= value <= 1:
            raise ValueError(
                f"a fraction of training must be from 0.0 to 1.0, got {value!r}; write a step without a decimal point"
            )
        return float(value) + 0.0  # -0.0 becomes 0.0, so that equal schedules have equal specs
    number = as_int(value, "a moment of training (a step, or a float from 0.0 to 1.0)")
    step = validate_step(number, "a step of training")
    if step > MAX_STEPS:
        raise ValueError(f"a step of training must be {MAX_STEPS} or less, got {short_repr(step)}")
    return step


def _validate_moments(moments: tuple[Moment, ...], what: str) -> tuple[Moment, ...]:
    """Return moments of one kind, all steps or all fractions; a bare 0 or 1 among fractions is a fraction."""
    valid = tuple(_validate_moment(moment) for moment in moments)
    if not any(isinstance(moment, float) for moment in valid):
        return valid
    if any(isinstance(moment, int) and moment > 1 for moment in valid):
        raise ValueError(f"{what} must be all steps or all fractions, got {_listed(valid)}")
    return tuple(float(moment) for moment in valid)


def _listed(moments: tuple[Moment, ...]) -> str:
    return short_repr(moments)[1:-1]


def _step_of(moment: Moment, total: int) -> int:
    """Return the step of a moment in a run of ``total`` steps."""
    return moment if isinstance(moment, int) else round(moment * total)


def _range_of(*bits: Bits) -> tuple[Bits, Bits]:
    return min(bits, key=width_of), max(bits, key=width_of)
