"""Schedules made of schedules: a deficit, a delay, a join.

Moments of training are steps (``int``) or fractions of training (``float``): ``0.25`` is a quarter, ``16000`` a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bitcycle.schedules.base import FULL, Bits, Schedule, checked_bits, whole, width_of

Moment = int | float


@dataclass(frozen=True)
class Window:
    """The stretch [start, stop) of training, held at the given bits."""

    start: Moment
    stop: Moment
    bits: Bits

    def __post_init__(self) -> None:
        start, stop = _alike((self.start, self.stop), "the two ends of a window")
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "bits", checked_bits(self.bits))
        if start >= stop:
            raise ValueError(f"the window {self.span} is empty: it must end after it starts")

    @property
    def span(self) -> str:
        return f"{self.start!r}..{self.stop!r}"

    def __str__(self) -> str:
        return f"{'full' if self.bits is None else self.bits}@{self.span}"

    def steps(self, total: int) -> tuple[int, int]:
        start, stop = (_step_of(moment, total) for moment in (self.start, self.stop))
        if stop > total:
            raise ValueError(f"the window {self.span} falls outside a training of {total} steps")
        return start, stop


@dataclass(frozen=True)
class Deficit(Schedule):
    """Windows of training held at given bits, the rest on another schedule.

    >>> from bitcycle.schedules import Constant
    >>> s = Deficit((Window(0.0, 0.25, 3),), Constant(8))
    >>> s(24, 100), s(25, 100), str(s)
    (3, 8, 'deficit(3@0.0..0.25, static:8)')
    """

    windows: tuple[Window, ...]
    rest: Schedule

    def __post_init__(self) -> None:
        if not self.windows:
            raise ValueError("a deficit has at least one window, as in deficit(3@0.0..0.25, static:8)")
        kinds = {type(window.start) for window in self.windows}
        if len(kinds) > 1:
            raise ValueError("the windows of a deficit are all in steps or all in fractions, not mixed")
        ordered = tuple(sorted(self.windows, key=lambda window: window.start))
        for earlier, later in pairwise(ordered):
            if later.start < earlier.stop:
                raise ValueError(f"the windows {earlier.span} and {later.span} overlap")
        object.__setattr__(self, "windows", ordered)

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        widths = self.rest.widths(steps, total)
        for window in self.windows:
            start, stop = window.steps(total)
            widths[(steps >= start) & (steps < stop)] = FULL if window.bits is None else window.bits
        return widths

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return _span(*self.rest.limits(total), *(window.bits for window in self.windows))

    def __str__(self) -> str:
        return f"deficit({', '.join(map(str, self.windows))}, {self.rest})"


@dataclass(frozen=True)
class Delay(Schedule):
    """Hold q_max for the first part of training, then follow a schedule over what remains.

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
            raise ValueError("a delay of 1.0 is all of training and leaves nothing to the schedule")

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        held = self._held(total)
        before = steps < held
        widths = np.empty_like(steps)
        widths[before] = self._held_width(total - held)
        widths[~before] = self.then.widths(steps[~before] - held, total - held)
        return widths

    def limits(self, total: int) -> tuple[Bits, Bits]:
        return self.then.limits(total - self._held(total))

    def _held(self, total: int) -> int:
        held = _step_of(self.hold, total)
        if held >= total and isinstance(self.hold, int):
            raise ValueError(f"a delay of {held} steps leaves nothing of a training of {total} steps")
        return min(held, total - 1)

    def _held_width(self, rest: int) -> int:
        q_max = self.then.limits(rest)[1]
        return FULL if q_max is None else q_max

    def __str__(self) -> str:
        return f"delay({self.hold!r}, {self.then})"


@dataclass(frozen=True)
class Join(Schedule):
    """Schedules one after the other, each over its own stretch of training.

    >>> from bitcycle.schedules import schedule
    >>> s = Join((schedule("static:8"), schedule("LR:3-6:cycles=1")), at=(0.5,))
    >>> s(49, 100), s(50, 100), s(99, 100), str(s)
    (8, 3, 6, 'join(static:8, 0.5, LR:3-6:cycles=1)')
    """

    parts: tuple[Schedule, ...]
    at: tuple[Moment, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", _alike(self.at, "the boundaries of a join"))
        if len(self.parts) < 2 or len(self.at) != len(self.parts) - 1:
            raise ValueError(
                f"a join has a boundary between every two of its schedules, as in join(static:8, 0.5, static:4): "
                f"{len(self.parts)} schedules and {len(self.at)} boundaries do not fit"
            )
        if any(later <= earlier for earlier, later in pairwise(self.at)):
            raise ValueError(f"the boundaries of a join must grow, unlike {', '.join(map(repr, self.at))}")

    def widths(self, steps: NDArray[np.int64], total: int) -> NDArray[np.int64]:
        widths = np.empty_like(steps)
        for part, start, stop in self._stretches(total):
            inside = (steps >= start) & (steps < stop)
            if inside.any():
                widths[inside] = part.widths(steps[inside] - start, stop - start)
        return widths

    def limits(self, total: int) -> tuple[Bits, Bits]:
        stretches = (stretch for stretch in self._stretches(total) if stretch[2] > stretch[1])
        return _span(*(bits for part, start, stop in stretches for bits in part.limits(stop - start)))

    def _stretches(self, total: int) -> list[tuple[Schedule, int, int]]:
        inner = [_step_of(moment, total) for moment in self.at]
        if inner[-1] > total:
            raise ValueError(f"the boundary {inner[-1]} of a join falls outside a training of {total} steps")
        return list(zip(self.parts, [0, *inner], [*inner, total], strict=True))

    def __str__(self) -> str:
        rest = "".join(f", {moment!r}, {part}" for moment, part in zip(self.at, self.parts[1:], strict=True))
        return f"join({self.parts[0]}{rest})"


def _moment(value: object) -> Moment:
    """A checked moment: a fraction between 0 and 1, or a step of 0 or more."""
    if isinstance(value, (float, np.floating)):
        if not 0 <= value <= 1:
            raise ValueError(
                f"{value!r} is not a fraction of training between 0.0 and 1.0; steps are whole numbers, without a point"
            )
        return float(value)
    step = whole(value, "a moment of training (a step, or a fraction with a point)")
    if step < 0:
        raise ValueError(f"step {step} lies before training")
    return step


def _alike(moments: tuple[Moment, ...], what: str) -> tuple[Moment, ...]:
    """Moments of one kind; a bare 0 or 1 beside fractions is read as a fraction."""
    checked = tuple(_moment(moment) for moment in moments)
    if not any(isinstance(moment, float) for moment in checked):
        return checked
    if any(isinstance(moment, int) and moment > 1 for moment in checked):
        raise ValueError(f"{what} are both steps or both fractions, not {', '.join(map(repr, checked))}")
    return tuple(float(moment) for moment in checked)


def _step_of(moment: Moment, total: int) -> int:
    return moment if isinstance(moment, int) else round(moment * total)


def _span(*bits: Bits) -> tuple[Bits, Bits]:
    return min(bits, key=width_of), max(bits, key=width_of)
