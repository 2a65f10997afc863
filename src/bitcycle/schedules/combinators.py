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
    validate_bits,
    validate_integer,
    width_of,
    write_bits,
)
from bitcycle.schedules.constant import Constant
from bitcycle.schedules.grammar import Node, Reader, parse_int, parse_moment, register, tree
from bitcycle.schedules.interface import Schedule

Moment = int | float
"""A step, or a fraction of training."""


class Combinator(Schedule):
    """A schedule made of others."""

    is_combinator = True

    def __post_init__(self) -> None:
        tree(str(self))  # raises if it is nested too deep, or if its spec is longer than one that can be read


class Sequence(Combinator):
    """Schedules one after the other, each stretched over its own part of training."""

    @abstractmethod
    def pieces(self, total: int) -> list[tuple[Schedule, int, int]]:
        """Return the schedules, each with its first step and the first step after it. Some may have no steps.

        Args:
            total: Total number of training steps.
        """

    def values(self, steps: Integers, total: int) -> Values:
        values = np.empty(steps.shape, self.quantity.dtype)
        for schedule, start, stop in self.pieces(total):
            inside = (steps >= start) & (steps < stop)
            if inside.any():
                values[inside] = schedule.values(steps[inside] - start, stop - start)
        return values

    def limits(self, total: int) -> tuple[Bits, Bits]:
        limits = [schedule.limits(stop - start) for schedule, start, stop in self.pieces(total) if start < stop]
        return _range_of(*(bits for pair in limits for bits in pair))


class Window(NamedTuple):
    """A part of training that is held at given bits.

    Example:
        >>> str(Window(0.0, 0.25, 3))
        '3@0.0..0.25'
    """

    start: Moment
    """Where it begins: a step, or a fraction of training."""
    stop: Moment
    """Where it ends, in the same unit; the step itself is not part of the window."""
    bits: Bits
    """The width, or ``None`` for full precision."""

    @property
    def span(self) -> str:
        """Start and end as in a spec."""
        return f"{self.start!r}..{self.stop!r}"

    def __str__(self) -> str:
        return f"{write_bits(self.bits)}@{self.span}"


@register
@dataclass(frozen=True)
class Deficit(Combinator):
    """Windows of training held at given bits; another schedule applies elsewhere.

    Args:
        windows: Windows that do not overlap, all in steps or all in fractions of training.
        rest: The schedule outside of the windows.

    Raises:
        ValueError: If there is no window, if a window is empty, if windows overlap, or if they mix steps and fractions.

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
        starts, stops, bits = zip(*self.windows, strict=True)
        moments = _validate_moments((*starts, *stops), "the windows of a deficit")
        ends = zip(moments[: len(starts)], moments[len(starts) :], map(validate_bits, bits), strict=True)
        windows = sorted((Window(*each) for each in ends), key=lambda window: window.start)
        for window in windows:
            if window.start >= window.stop:
                raise ValueError(f"the window {window.span} is empty: its end must be after its start")
        for earlier, later in pairwise(windows):
            if later.start < earlier.stop:
                raise ValueError(f"the windows {earlier.span} and {later.span} overlap")
        object.__setattr__(self, "windows", tuple(windows))
        super().__post_init__()

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return ("deficit",)

    @classmethod
    def parse(cls, node: Node, reader: Reader) -> Schedule:
        if len(node.arguments) < 2:
            raise ValueError("a deficit takes windows and a schedule, as in deficit(3@0.0..0.25, static:8)")
        *windows, rest = node.arguments
        return cls(tuple(_parse_window(window.plain_text()) for window in windows), reader.schedule(rest))

    def values(self, steps: Integers, total: int) -> Values:
        values = self.rest.values(steps, total)
        for start, stop, bits in self._in_steps(total):
            values[(steps >= start) & (steps < stop)] = width_of(bits)
        return values

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return _range_of(*self.rest.limits(total), *(bits for _, _, bits in self._in_steps(total)))

    def _in_steps(self, total: int) -> list[tuple[int, int, Bits]]:
        """Return the first step of each window, the step after its last, and its bits."""
        if _step_of(self.windows[-1].stop, total) > total:
            raise ValueError(f"the window {self.windows[-1].span} is outside a run of {total} steps")
        return [(_step_of(start, total), _step_of(stop, total), bits) for start, stop, bits in self.windows]

    def __str__(self) -> str:
        return f"deficit({', '.join(map(str, self.windows))}, {self.rest})"


@register
@dataclass(frozen=True)
class Delay(Sequence):
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

    def pieces(self, total: int) -> list[tuple[Schedule, int, int]]:
        held = self._held(total)
        return [(Constant(self.limits(total)[1]), 0, held), (self.then, held, total)]

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
class Join(Sequence):
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

    def pieces(self, total: int) -> list[tuple[Schedule, int, int]]:
        inner = [_step_of(moment, total) for moment in self.at]
        if inner[-1] > total:
            raise ValueError(f"the boundary {inner[-1]} of a join is outside a run of {total} steps")
        return list(zip(self.parts, [0, *inner], [*inner, total], strict=True))

    def __str__(self) -> str:
        rest = "".join(f", {moment!r}, {part}" for moment, part in zip(self.at, self.parts[1:], strict=True))
        return f"join({self.parts[0]}{rest})"


def _parse_window(text: str) -> Window:
    width, at, span = (part.strip() for part in text.partition("@"))
    start, dots, stop = (part.strip() for part in span.partition(".."))
    if not (at and dots and width and start and stop):
        raise ValueError(
            f"a window is written bits@start..stop, as in 3@0.0..0.25 or 3@0..16000, got {short_repr(text)}"
        )
    return Window(parse_moment(start), parse_moment(stop), None if width == FULL_SPEC else parse_int(width, "bits"))


def _validate_moment(value: object) -> Moment:
    """Return a moment: a fraction from 0 to 1, or a step of 0 or more."""
    if isinstance(value, (float, np.floating)):
        if not 0 <= value <= 1:
            raise ValueError(
                f"a fraction of training must be from 0.0 to 1.0, got {value!r}; write a step without a decimal point"
            )
        return float(value) + 0.0  # -0.0 becomes 0.0, so that equal schedules have equal specs
    return validate_integer(value, "a step of training", 0, MAX_STEPS)


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
