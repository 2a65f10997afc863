"""Schedules as figures: the bits over training, a panel per schedule, or per operand where operands differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle.lab.report import figures
from bitcycle.lab.report.figures import COLOURS, TIP, Spec, exact, layer, number, shortened
from bitcycle.lab.schedule_summary import schedule_label
from bitcycle.schedules.base import FULL_WIDTH
from bitcycle.schedules.operands import OperandSchedules
from bitcycle.schedules.spec import FULL_STRENGTH

COLUMNS = 4
MAX_POINTS = 2000  # a schedule is sampled at no more steps than this
STRENGTH_DECIMALS = 2  # as fine as a panel can show
HEIGHT = 70
GROUPS: dict[str | None, tuple[str, str]] = {
    "large": ("large saving", "large"),
    "medium": ("medium saving", "medium"),
    "small": ("small saving", "small"),
    None: ("no saving", "full"),
}
"""The words and the colour of each group."""

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


def tracks(operands: OperandSchedules, total: int) -> list[Track]:
    """Return what is drawn of a combination; full precision counts as 32 bits.

    Operands on one schedule are one track. Gradients are a track of their own if they change, or if the forward pass
    has steps in full precision; the strength is one if it is not 1.

    >>> [track] = tracks(OperandSchedules.of("deficit(3@0..50, static:8)"), 100)
    >>> track.spec, track.stretches
    ('deficit(3@0..50, static:8)', [(0.0, 0.5, 3), (0.5, 1.0, 8)])
    >>> operands = OperandSchedules.of("static:4", activations="join(full, 0.5, static:8)")
    >>> [(track.name, track.spec) for track in tracks(operands, 9)]
    [('weights', 'static:4'), ('activations', 'join(full, 0.5, static:8)'), ('gradients', '8 bits')]
    """
    steps = np.unique(np.linspace(0, total - 1, min(total, MAX_POINTS)).astype(np.int64))

    def stretches(values: NDArray[Any]) -> list[Stretch]:
        starts = np.flatnonzero(np.diff(values, prepend=-1))
        edges = [float(steps[i]) / total for i in starts] + [1.0]
        return [(edges[i], edges[i + 1], values[start].item()) for i, start in enumerate(starts)]

    w, a, g = (stretches(values) for values in operands.widths(steps, total))
    strength = stretches(np.round(operands.strength.values(steps, total), STRENGTH_DECIMALS))
    gradients = len(g) > 1 or any(value == FULL_WIDTH for *_, value in w + a)
    drawn = (
        [Track("gradients", _gradients(operands, g), g)]
        if gradients and operands != OperandSchedules.of("full")
        else []
    )
    drawn += [Track("strength", str(operands.strength), strength)] if operands.strength != FULL_STRENGTH else []
    if operands.weights != operands.activations:
        return [Track("weights", str(operands.weights), w), Track("activations", str(operands.activations), a), *drawn]
    return [Track("forward" if drawn else "", str(operands.weights), w), *drawn]


def _gradients(operands: OperandSchedules, stretches: Sequence[Stretch]) -> str:
    """Return the spec of gradients, or their bits where these follow the operands."""
    if operands.backward is not None:
        return str(operands.backward)
    words = ("full" if value == FULL_WIDTH else f"{value:g} bits" for *_, value in stretches)
    return ", ".join(dict.fromkeys(words))


@dataclass(frozen=True)
class Panel:
    """A track under its title and a note."""

    title: str
    note: str
    track: Track
    colour: str
    tip: str = ""
    """The text of its tooltip, which begins with what it belongs to."""


def panels(drawn: Sequence[Panel], columns: int = COLUMNS, width: int = 200) -> Spec:
    """Describe panels in rows: those of bits on one scale, below them those of strengths."""
    bits = [panel for panel in drawn if not panel.track.is_strength]
    strengths = [panel for panel in drawn if panel.track.is_strength]
    parts = [_panels(some, columns, width) for some in (bits, strengths) if some]
    return parts[0] if len(parts) == 1 else {"vconcat": parts, "spacing": 30}


def _panels(drawn: Sequence[Panel], columns: int, width: int) -> Spec:
    """Panels on one scale: linear, with full precision close above the other widths instead of at 32."""
    levels = {value for panel in drawn for *_, value in panel.track.stretches}
    widths = levels - {FULL_WIDTH} or {FULL_WIDTH}
    low, high = min(widths), max(widths)
    top = 1.35 * high if levels > widths else high
    rows = [
        {
            "panel": f"{i:04}{shortened(panel.title, width // 7)}\n{shortened(panel.note, width // 7)}",
            "x": x,
            "y": min(value, top),
            "colour": panel.colour,
            "tip": f"{panel.tip or panel.title}\n{panel.note}",
        }
        for i, panel in enumerate(drawn)
        for start, end, value in panel.track.stretches
        for x in ((start, end) if end == 1 else (start,))  # a value holds until the next one
    ]
    # The least bits have a label only where there is room.
    ticks = sorted({0, high, top, *([low] if high / 6 <= low <= high * 5 / 6 else [])})
    label = f"datum.value > {high} ? '{FULL_WIDTH}' : format(datum.value, '~g')"
    across: Spec = {"values": [0, 1], "labelExpr": "datum.value ? 'end of training' : 'start'", "ticks": False}
    header = {"title": None, "labelExpr": "split(slice(datum.label, 4), '\\n')", "labelLineHeight": 15}
    style = {"interpolate": "step-after"}
    y = {**number("y", (0, top), values=ticks, labelExpr=label), "stack": None}
    return {
        "data": {"values": rows},
        "facet": {"field": "panel", "type": "nominal", "header": header},
        "columns": columns,
        "spacing": {"row": 18, "column": 24},
        "spec": {
            "width": width,
            "height": HEIGHT,
            "encoding": {"x": number("x", (0, 1), **across), "y": y},
            "layer": [
                layer("area", None, {"fill": exact("colour"), **TIP}, opacity=0.16, **style),
                layer("line", None, {"stroke": exact("colour"), **TIP}, **style),
            ],
        },
    }


def draw_schedules(schedules: Sequence[OperandSchedules], total: int, path: Path) -> None:
    """Draw the bits over training for each schedule, by group, and save the figure as PNG or SVG.

    A combination of several schedules has a panel for each of them.

    Raises:
        ValueError: If the path ends in neither ``.png`` nor ``.svg``.
    """
    figures.check_suffix(path)
    order = list(GROUPS)
    drawn = []
    for operands in sorted(schedules, key=lambda each: order.index(each.group(total))):
        group = operands.group(total)
        words, colour = GROUPS[group]
        note = f"{words}: {100 * operands.saving(total):.1f} %" if group else words
        known = tracks(operands, total)
        for each in known:
            title = f"{each.name}: {each.spec}" if len(known) > 1 else schedule_label(operands)
            drawn.append(Panel(title, note, each, COLOURS[colour]))
    title = f"Precision schedules over {total:,} steps, by saving against static q_max"
    figures.save({**panels(drawn), "title": title}, path)
