"""Placing marks and labels so that none covers another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

LETTER = 0.66  # the width of a letter, in heights of its font: enough for capitals in bold


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """The area that two boxes share.

        >>> Box(0, 0, 2, 2).overlap(Box(1, 1, 5, 5))
        1
        """
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0, width) * max(0, height)


@dataclass(frozen=True)
class Label:
    """A label with a point of its base line: its middle, start or end, as the anchor says."""

    x: float
    y: float
    anchor: str
    box: Box

    @classmethod
    def at(cls, x: float, y: float, anchor: str, width: float, height: float) -> Label:
        """The label with the box that it fills, and a little room beside it.

        >>> Label.at(10, 20, "middle", width=8, height=10).box
        Box(left=4.0, top=12.0, right=16.0, bottom=22.0)
        """
        left = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        return cls(x, y, anchor, Box(left - 2, y - height * 0.8, left + width + 2, y + height * 0.2))


def text_width(text: str, size: float) -> float:
    """About as wide as a text gets."""
    return LETTER * size * len(text)


def spread(wanted: Sequence[float], gaps: Sequence[float] | float, low: float, high: float) -> list[float]:
    """Places in the order of those wanted, as near to them as the gaps between neighbours allow.

    Neighbours that come too close are joined into a block, which stands where its members want it on average; this
    is the least-squares solution. All of it is moved into the room from low to high, as far as it fits.

    >>> spread([10, 11, 50], 4, low=0, high=100)
    [8.5, 12.5, 50.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    each = [gaps] * len(wanted) if isinstance(gaps, (int, float)) else list(gaps)
    offsets = [0.0]
    for before, after in pairwise(order):
        offsets.append(offsets[-1] + (each[before] + each[after]) / 2)
    blocks: list[tuple[float, int]] = []  # the sum of what the members want, less their offsets, and their number
    for i, offset in zip(order, offsets, strict=False):
        blocks.append((wanted[i] - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [(a + b, n + m)]
    starts = [total / number for total, number in blocks for _ in range(number)]
    length = offsets[len(order) - 1] if order else 0.0
    starts = [max(low, min(start, high - length)) for start in starts]
    places = [0.0] * len(wanted)
    for i, start, offset in zip(order, starts, offsets, strict=False):
        places[i] = start + offset
    return places


def place_label(text: str, size: float, point: Box, obstacles: Sequence[Box], frame: Box) -> Label:
    """The best place for a label near a point with its error bar: beside, above or below, where least is covered."""
    width, height = text_width(text, size), size
    middle = (point.left + point.right) / 2
    centre = (point.top + point.bottom) / 2
    places = [(middle, point.top - 4, "middle"), (middle, point.bottom + height + 2, "middle")]
    places += [(point.right + 5, centre + height / 3, "start"), (point.left - 5, centre + height / 3, "end")]
    for far in (0.9, 1.8, 2.7):
        places.append((middle, point.top - 4 - far * height, "middle"))
        places.append((middle, point.bottom + (1 + far) * height + 2, "middle"))
    labels = [Label.at(*place, width, height) for place in places]

    def covered(rank_and_label: tuple[int, Label]) -> float:
        rank, label = rank_and_label
        box = label.box
        outside = (box.right - box.left) * (box.bottom - box.top) - box.overlap(frame)
        return 4 * sum(box.overlap(other) for other in obstacles) + 4 * outside + 2 * rank

    return min(enumerate(labels), key=covered)[1]
