"""Combinators: schedules made of other schedules (a deficit, a delay, a join).

A moment of training is a step (``int``) or a fraction of training (``float``): ``0.25`` is a quarter, ``16000`` a step.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.text import shown
from bitcycle.schedules.base import MOST_STEPS, Bits, Schedule, array_width, check_extent, checked_bits, whole, width_of

Moment = int | float
"""A step, or a fraction of training."""
Part = TypeVar("Part")


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
        start, stop = alike((self.start, self.stop), "the two ends of a window")
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "bits", checked_bits(self.bits))
        if start >= stop:
            raise ValueError(f"the window {self.span} is empty: its end must be after its start")

    @property
    def span(self) -> str:
        """Start and end as in a spec."""
        return f"{self.start!r}..{self.stop!r}"

    def __str__(self) -> str:
        return f"{'full' if self.bits is None else self.bits}@{self.span}"

    def steps(self, total: int) -> tuple[int, int]:
        """Return the first step, and the first one after the window.

        Raises:
            ValueError: If the window ends after step ``total``.
        """
        start, stop = (step_of(moment, total) for moment in (self.start, self.stop))
        if stop > total:
            raise ValueError(f"the window {self.span} is outside a run of {total} steps")
        return start, stop

    @property
    def width(self) -> int:
        """The bits as an array of widths writes them."""
        return array_width(self.bits)


@dataclass(frozen=True)
class Deficit(Schedule):
    """Windows of training held at given bits; another schedule applies elsewhere.

    Args:
        windows: Windows that do not overlap, all in steps or all in fractions of training.
        rest: The schedule outside of the windows.

    Raises:
        ValueError: If there is no window, if windows overlap, or if they mix steps and fractions.

    Example:
        >>> from bitcycle.schedules import Constant
        >>> s = Deficit((Window(0.0, 0.25, 3),), Constant(8))
        >>> s(24, 100), s(25, 100), str(s)
        (3, 8, 'deficit(3@0.0..0.25, static:8)')
    """

    windows: tuple[Window, ...]
    rest: Schedule

    def __post_init__(self) -> None:
        if not self.windows:
            raise ValueError("a deficit needs at least one window, as in deficit(3@0.0..0.25, static:8)")
        kinds = {type(window.start) for window in self.windows}
        if len(kinds) > 1:
            raise ValueError("the windows of a deficit must be all in steps or all in fractions, got a mixture")
        ordered = tuple(sorted(self.windows, key=lambda window: window.start))
        for earlier, later in pairwise(ordered):
            if later.start < earlier.stop:
                raise ValueError(f"the windows {earlier.span} and {later.span} overlap")
        object.__setattr__(self, "windows", ordered)
        check_extent(self)

    @property
    def depth(self) -> int:
        return 1 + self.rest.depth

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        widths = self.rest.widths(steps, total)
        for window in self.windows:
            start, stop = window.steps(total)
            widths[(steps >= start) & (steps < stop)] = window.width
        return widths

    def count_widths(self, start: int, stop: int, total: int) -> Counter[int]:
        counts: Counter[int] = Counter()
        position = start
        for window in self.windows:
            begin, end = (min(max(step, position), stop) for step in window.steps(total))
            if position < begin:  # else nested deficits would count an exponential number of empty gaps
                counts.update(self.rest.count_widths(position, begin, total))
            counts[window.width] += end - begin
            position = end
        if position < stop:
            counts.update(self.rest.count_widths(position, stop, total))
        return counts

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return _span(*self.rest.limits(total), *(window.bits for window in self.windows))

    def __str__(self) -> str:
        return f"deficit({', '.join(map(str, self.windows))}, {self.rest})"


@dataclass(frozen=True)
class Delay(Schedule):
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
        object.__setattr__(self, "hold", _moment(self.hold))
        if self.hold == 1.0 and isinstance(self.hold, float):
            raise ValueError("a delay of 1.0 leaves no steps for the schedule: it must be below 1.0")
        check_extent(self)

    @property
    def depth(self) -> int:
        return 1 + self.then.depth

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        held = self._held(total)
        before = steps < held
        widths = np.empty_like(steps)
        widths[before] = self._held_width(total - held)
        widths[~before] = self.then.widths(steps[~before] - held, total - held)
        return widths

    def count_widths(self, start: int, stop: int, total: int) -> Counter[int]:
        held = self._held(total)
        begin = min(max(start, held), stop)
        counts = Counter({self._held_width(total - held): begin - start})
        counts.update(self.then.count_widths(begin - held, stop - held, total - held) if begin < stop else {})
        return counts

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self.then.limits(total - self._held(total))

    def _held(self, total: int) -> int:
        held = step_of(self.hold, total)
        if held >= total and isinstance(self.hold, int):
            raise ValueError(f"a delay of {held} steps leaves no steps for the schedule in a run of {total} steps")
        return min(held, total - 1)

    def _held_width(self, rest: int) -> int:
        return array_width(self.then.limits(rest)[1])

    def __str__(self) -> str:
        return f"delay({self.hold!r}, {self.then})"


@dataclass(frozen=True)
class Join(Schedule):
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

    def __post_init__(self) -> None:
        if len(self.parts) < 2 or len(self.at) != len(self.parts) - 1:
            raise ValueError(
                "a join needs one boundary between every two schedules, as in join(static:8, 0.5, static:4), "
                f"got {len(self.parts)} schedules and {len(self.at)} boundaries"
            )
        object.__setattr__(self, "at", boundaries_of_join(self.at))
        check_extent(self)

    @property
    def depth(self) -> int:
        return 1 + max(part.depth for part in self.parts)

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        widths = np.empty_like(steps)
        for part, start, stop in stretches(self.parts, self.at, total):
            inside = (steps >= start) & (steps < stop)
            if inside.any():
                widths[inside] = part.widths(steps[inside] - start, stop - start)
        return widths

    def count_widths(self, start: int, stop: int, total: int) -> Counter[int]:
        counts: Counter[int] = Counter()
        for part, first, last in stretches(self.parts, self.at, total):
            begin, end = max(start, first), min(stop, last)
            if begin < end:
                counts.update(part.count_widths(begin - first, end - first, last - first))
        return counts

    def limits(self, total: int) -> tuple[Bits, Bits]:
        followed = (stretch for stretch in stretches(self.parts, self.at, total) if stretch[2] > stretch[1])
        return _span(*(bits for part, start, stop in followed for bits in part.limits(stop - start)))

    def __str__(self) -> str:
        rest = "".join(f", {moment!r}, {part}" for moment, part in zip(self.at, self.parts[1:], strict=True))
        return f"join({self.parts[0]}{rest})"


def _moment(value: object) -> Moment:
    """Return a checked moment: a fraction from 0 to 1, or a step of 0 or more."""
    if isinstance(value, (float, np.floating)):
        if not 0 <= value <= 1:
            raise ValueError(
                f"a fraction of training must be from 0.0 to 1.0, got {value!r}; write a step without a decimal point"
            )
        return float(value) + 0.0  # -0.0 becomes 0.0, so that equal schedules have equal specs
    step = whole(value, "a moment of training (a step, or a float from 0.0 to 1.0)")
    if step < 0:
        raise ValueError(f"a step of training must be 0 or more, got {shown(step)}")
    if step > MOST_STEPS:
        raise ValueError(f"a step of training must be {MOST_STEPS} or less, got {shown(step)}")
    return step


def alike(moments: tuple[Moment, ...], what: str) -> tuple[Moment, ...]:
    """Return moments of one kind, all steps or all fractions; a bare 0 or 1 among fractions is a fraction."""
    checked = tuple(_moment(moment) for moment in moments)
    if not any(isinstance(moment, float) for moment in checked):
        return checked
    if any(isinstance(moment, int) and moment > 1 for moment in checked):
        raise ValueError(f"{what} must be all steps or all fractions, got {_listed(checked)}")
    return tuple(float(moment) for moment in checked)


def boundaries_of_join(at: tuple[Moment, ...]) -> tuple[Moment, ...]:
    """Return the moments between the parts of a join, which must be alike and ascending."""
    checked = alike(at, "the boundaries of a join")
    if any(later <= earlier for earlier, later in pairwise(checked)):
        raise ValueError(f"the boundaries of a join must be ascending, got {_listed(checked)}")
    return checked


def stretches(parts: tuple[Part, ...], at: tuple[Moment, ...], total: int) -> list[tuple[Part, int, int]]:
    """Return each part of a join with its first step and the first step after it."""
    inner = [step_of(moment, total) for moment in at]
    if inner[-1] > total:
        raise ValueError(f"the boundary {inner[-1]} of a join is outside a run of {total} steps")
    return list(zip(parts, [0, *inner], [*inner, total], strict=True))


def _listed(moments: tuple[Moment, ...]) -> str:
    return shown(moments)[1:-1]


def step_of(moment: Moment, total: int) -> int:
    """Return the step of a moment in a run of ``total`` steps."""
    return moment if isinstance(moment, int) else round(moment * total)


def _span(*bits: Bits) -> tuple[Bits, Bits]:
    return min(bits, key=width_of), max(bits, key=width_of)
