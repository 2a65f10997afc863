"""Schedules as charts: the bits over training, a panel per schedule, or per operand where operands differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.charts.drawing import Drawing, Frame, text
from bitcycle._support.charts.files import checked, grid, save
from bitcycle._support.charts.markup import Markup, coordinate, join, tag
from bitcycle._support.charts.scale import Scale
from bitcycle.schedules.base import FULL_WIDTH
from bitcycle.schedules.comparison import ScheduleSummary
from bitcycle.schedules.operands import OperandSchedules
from bitcycle.schedules.strengths import FULL_STRENGTH

COLUMNS = 4  # weights, activations, gradients and strength side by side
MOST_POINTS = 2000  # a schedule is sampled at no more steps than this
STRENGTH_DECIMALS = 2  # as fine as a panel can show
WIDTH, HEIGHT = 200.0, 96.0
GROUPS: tuple[tuple[str | None, str, str], ...] = (
    ("large", "large saving", "kind-large"),
    ("medium", "medium saving", "kind-medium"),
    ("small", "small saving", "kind-small"),
    (None, "no saving", "kind-full"),
)

Stretch = tuple[float, float, float]
"""Start and end of a stretch with a constant value, as fractions of training, and its value."""


@dataclass(frozen=True)
class Track:
    """What one quantity does over training: the bits of an operand, or the strength."""

    name: str
    """``weights``, ``activations``, ``forward`` for both, ``gradients`` or ``strength``; empty if there is no other."""
    spec: str
    stretches: list[Stretch]

    @property
    def is_strength(self) -> bool:
        """Whether the values are strengths and not bits."""
        return self.name == "strength"


def tracks(moves: OperandSchedules, total: int) -> list[Track]:
    """Return what is drawn of a combination; full precision counts as 32 bits.

    Operands on one schedule are one track. Gradients are a track of their own if they move, or if the forward pass has
    steps in full precision; the strength is one if it is not 1.

    >>> [track] = tracks(OperandSchedules.of("deficit(3@0..50, static:8)"), 100)
    >>> track.spec, track.stretches
    ('deficit(3@0..50, static:8)', [(0.0, 0.5, 3), (0.5, 1.0, 8)])
    >>> moves = OperandSchedules.of("static:4", activations="join(full, 0.5, static:8)")
    >>> [(track.name, track.spec) for track in tracks(moves, 9)]
    [('weights', 'static:4'), ('activations', 'join(full, 0.5, static:8)'), ('gradients', '8 bits')]
    """
    steps = np.unique(np.linspace(0, total - 1, min(total, MOST_POINTS)).astype(np.int64))

    def stretches(values: NDArray[np.int64] | NDArray[np.float64]) -> list[Stretch]:
        starts = np.flatnonzero(np.diff(values, prepend=-1))
        edges = [float(steps[i]) / total for i in starts] + [1.0]
        return [(edges[i], edges[i + 1], values[start].item()) for i, start in enumerate(starts)]

    w, a, g = (stretches(values) for values in moves.widths(steps, total))
    strength = stretches(np.round(moves.strength.values(steps, total), STRENGTH_DECIMALS))
    gradients = len(g) > 1 or any(value == FULL_WIDTH for *_, value in w + a)
    drawn = [Track("gradients", _gradients(moves, g), g)] if gradients and moves != OperandSchedules.of("full") else []
    drawn += [Track("strength", str(moves.strength), strength)] if moves.strength != FULL_STRENGTH else []
    if moves.weights != moves.activations:
        return [Track("weights", str(moves.weights), w), Track("activations", str(moves.activations), a), *drawn]
    return [Track("forward" if drawn else "", str(moves.weights), w), *drawn]


def _gradients(moves: OperandSchedules, stretches: Sequence[Stretch]) -> str:
    """Return the spec of gradients, or their bits where these follow the operands."""
    if moves.backward is not None:
        return str(moves.backward)
    words = ("full" if value == FULL_WIDTH else f"{value:g} bits" for *_, value in stretches)
    return ", ".join(dict.fromkeys(words))


@dataclass(frozen=True)
class BitScale:
    """A scale that panels share: linear up to ``high``, with full precision close above instead of at 32."""

    low: float
    high: float
    full: bool

    @classmethod
    def of(cls, schedules: Iterable[Sequence[Stretch]]) -> BitScale:
        """Return the scale that holds all schedules.

        >>> BitScale.of([[(0.0, 0.5, 3), (0.5, 1.0, 32)], [(0.0, 1.0, 8)]])
        BitScale(low=3, high=8, full=True)
        """
        widths = {bits for known in schedules for *_, bits in known}
        bits = widths - {FULL_WIDTH}
        return cls(min(bits), max(bits), FULL_WIDTH in widths) if bits else cls(FULL_WIDTH, FULL_WIDTH, False)

    @property
    def top(self) -> float:
        """The height of full precision."""
        return 1.35 * self.high if self.full else self.high

    def levels(self) -> list[tuple[float, str]]:
        """Return the heights of the grid lines with their texts; the least bits only where there is room."""
        bits = sorted({0, self.high, *([self.low] if self.high / 6 <= self.low <= self.high * 5 / 6 else [])})
        return [(level, f"{level:g}") for level in bits] + [(self.top, str(FULL_WIDTH))] * self.full


STRENGTHS = BitScale(0, 1, False)
"""The scale of panels of strength."""
EMPTY = Drawing(WIDTH, HEIGHT, "", "nothing", Markup(""))


def panel(title: str, note: str, known: Sequence[Stretch], scale: BitScale, class_: str) -> Drawing:
    """Draw the bits, or the strength, over training."""
    frame = Frame(Scale(0, 1, 22, WIDTH - 4), Scale(0, scale.top, HEIGHT - 20, 6))
    box = frame.box
    heights = [frame.y(min(bits, scale.top)) for *_, bits in known]
    outline = f"M{coordinate(box.left)} {coordinate(heights[0])}"
    for (_, end, _), height in zip(known, heights, strict=True):
        outline += f"V{coordinate(height)}H{coordinate(frame.x(end))}"
    widths = [bits for *_, bits in known]
    content = join(
        [
            *(frame.across(level, "grid") for level, _ in scale.levels()),
            *(text(label, box.left - 6, frame.y(level) + 4, "tick", "end") for level, label in scale.levels()),
            tag("path", d=f"{outline}V{coordinate(box.bottom)}H{coordinate(box.left)}Z", class_="area"),
            tag("path", d=outline, class_="stroke"),
            text("start", box.left, HEIGHT - 5, "tick", "start"),
            text("end of training", box.right, HEIGHT - 5, "tick", "end"),
        ]
    )
    quantity = "strength" if scale is STRENGTHS else "bits"
    description = f"{quantity} over training, {min(widths):g} to {max(widths):g}"
    return Drawing(WIDTH, HEIGHT, title, description, tag("g", content, class_=class_), note)


def track_panels(
    drawn: Sequence[Track], captions: Sequence[tuple[str, str]], scale: BitScale, class_: str
) -> list[Drawing]:
    """Draw the panels of one combination, each with its title and its note."""
    return [
        panel(title, note, each.stretches, STRENGTHS if each.is_strength else scale, class_)
        for each, (title, note) in zip(drawn, captions, strict=True)
    ]


def scale_of(combinations: Iterable[Sequence[Track]]) -> BitScale:
    """Return the scale of the bits of all panels."""
    return BitScale.of(each.stretches for named in combinations for each in named if not each.is_strength)


def draw_schedules(rows: Sequence[ScheduleSummary], total: int, path: Path) -> None:
    """Draw the bits over training for each schedule, and save the figure as PNG or SVG.

    A combination of several schedules has a panel for each of them and a row of its own.

    Raises:
        ValueError: If the path ends in neither ``.png`` nor ``.svg``.
    """
    checked(path)
    known = [tracks(row.operands, total) for row in rows]
    scale = scale_of(known)
    drawn = []
    for group, words, class_ in GROUPS:
        for row, some in zip(rows, known, strict=True):
            if row.group == group:
                saving = f"{words}: {100 * row.saving:.1f} %" if group else words
                captions = [(row.operands.label, saving)]
                if len(some) > 1:
                    captions = [
                        (f"{each.name} ({saving})" if each is some[0] else each.name, each.spec) for each in some
                    ]
                drawn.append(track_panels(some, captions, scale, class_))
    if max(map(len, drawn)) > 1:  # a row for each combination
        drawn = [[*panels, *[EMPTY] * (COLUMNS - len(panels))] for panels in drawn]
    title = f"Precision schedules over {total:,} steps, by saving against static q_max"
    save(grid(title, [each for panels in drawn for each in panels], COLUMNS), path)
