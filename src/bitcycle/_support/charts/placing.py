"""Positions of marks and labels such that none covers another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

LETTER = 0.66  # width of a letter relative to the font size: enough for bold capitals


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """Return the area that two boxes share.

        >>> Box(0, 0, 2, 2).overlap(Box(1, 1, 5, 5))
        1
        """
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0, width) * max(0, height)


@dataclass(frozen=True)
class Label:
    """The baseline point of a text, its SVG anchor, and the box that the text fills."""

    x: float
    y: float
    anchor: str
    box: Box

    @classmethod
    def at(cls, x: float, y: float, anchor: str, width: float, height: float) -> Label:
        """Return the label with its box.

        >>> Label.at(10, 20, "middle", width=8, height=10).box
        Box(left=4.0, top=12.0, right=16.0, bottom=22.0)
        """
        left = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        return cls(x, y, anchor, Box(left - 2, y - height * 0.8, left + width + 2, y + height * 0.2))


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text."""
    return LETTER * size * len(text)


def shortened(text: str, limit: int = 22) -> str:
    """Shorten a name to the length that a chart has room for.

    >>> shortened("delay(0.25, CR:3-8:cycles=8)")
    'delay(0.25, CR:3-8:cy…'
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def spread(wanted: Sequence[float], gaps: Sequence[float] | float, low: float, high: float) -> list[float]:
    """Move positions apart until neighbours keep their gaps, with the least squared displacement.

    Neighbours that are too close form a block, which is centred where its members want to be on average. The result is
    shifted into the range from ``low`` to ``high`` as far as it fits.

    >>> spread([10, 11, 50], 4, low=0, high=100)
    [8.5, 12.5, 50.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    each = [gaps] * len(wanted) if isinstance(gaps, (int, float)) else list(gaps)
    offsets = [0.0]
    for before, after in pairwise(order):
        offsets.append(offsets[-1] + (each[before] + each[after]) / 2)
    blocks: list[tuple[float, int]] = []  # sum of the members' wanted positions less their offsets, and their number
    for i, offset in zip(order, offsets, strict=False):
        blocks.append((wanted[i] - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [(a + b, n + m)]
    starts = [total / number for total, number in blocks for _ in range(number)]
    length = offsets[len(order) - 1] if order else 0.0
    positions = [0.0] * len(wanted)
    for i, start, offset in zip(order, starts, offsets, strict=False):
        positions[i] = max(low, min(start, high - length)) + offset
    return positions


def place_label(text: str, size: float, point: Box, obstacles: Sequence[Box], frame: Box) -> Label:
    """Return the best label position near a point with its error bar: where it covers least."""
    width, height = text_width(text, size), size
    middle, centre = (point.left + point.right) / 2, (point.top + point.bottom) / 2
    candidates = [(middle, point.top - 4, "middle"), (middle, point.bottom + height + 2, "middle")]
    candidates += [(point.right + 5, centre + height / 3, "start"), (point.left - 5, centre + height / 3, "end")]
    for far in (0.9, 1.8, 2.7):
        candidates.append((middle, point.top - 4 - far * height, "middle"))
        candidates.append((middle, point.bottom + (1 + far) * height + 2, "middle"))
    labels = [Label.at(*candidate, width, height) for candidate in candidates]

    def covered(ranked: tuple[int, Label]) -> float:
        rank, label = ranked
        box = label.box
        outside = (box.right - box.left) * (box.bottom - box.top) - box.overlap(frame)
        return 4 * sum(box.overlap(other) for other in obstacles) + 4 * outside + 2 * rank

    return min(enumerate(labels), key=covered)[1]
