"""Drawings and the parts that they are made of. Colours are in ``chart.css``, by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bitcycle._support.charts.markup import Markup, coordinate, join, tag
from bitcycle._support.charts.placing import Box, spread
from bitcycle._support.charts.scale import Scale, tick_texts

Point = tuple[float, float]
Key = tuple[tuple[Markup, str], ...]
"""Samples of 30 by 16 pixels with what they mean."""
LABEL_HEIGHT = 12.5
DASHES = 6
"""``chart.css`` has this many dash patterns, ``dash-0`` to ``dash-5``."""


class MarkShape(StrEnum):
    """The shape of a mark; kinds differ by shape and by colour, never by colour alone."""

    CIRCLE = "circle"
    SQUARE = "square"
    DIAMOND = "diamond"
    TRIANGLE = "triangle"
    CROSS = "cross"
    FLAG = "flag"


# Outlines of marks of radius 1, all of about the same area.
_OUTLINES: dict[MarkShape, list[Point]] = {
    MarkShape.SQUARE: [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    MarkShape.DIAMOND: [(0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)],
    MarkShape.TRIANGLE: [(0, -1.25), (1.2, 0.9), (-1.2, 0.9)],
    MarkShape.CROSS: [
        *((-1, -0.45), (-0.45, -1), (0, -0.5), (0.45, -1), (1, -0.45), (0.5, 0)),
        *((1, 0.45), (0.45, 1), (0, 0.5), (-0.45, 1), (-1, 0.45), (-0.5, 0)),
    ],
    MarkShape.FLAG: [(0, 1.25), (1.2, -0.9), (-1.2, -0.9)],
}


@dataclass(frozen=True)
class Drawing:
    """A finished drawing: on a page through :meth:`inline`, as files through :mod:`bitcycle._support.charts.files`."""

    width: float
    height: float
    title: str
    description: str
    """What the drawing shows, for readers who do not see it."""
    content: Markup
    note: str = ""
    """A few words beside the title."""
    key: Key = ()

    def inline(self, class_: str = "plot", role: str = "img") -> Markup:
        """Return the SVG element for a page.

        The role is ``group`` where parts of the drawing take the keyboard focus: an image has no parts.

        >>> Drawing(10, 10, "a<b", "nothing", Markup("")).inline()[:70]
        '<svg viewBox="0 0 10 10" class="plot" role="img" aria-label="a&lt;b: n'
        """
        view = f"0 0 {coordinate(self.width)} {coordinate(self.height)}"
        label = f"{self.title}: {self.description}"
        return tag("svg", self.content, viewBox=view, class_=class_, role=role, aria_label=label)


@dataclass(frozen=True)
class Frame:
    """The area in which a plot draws its data."""

    x: Scale
    y: Scale

    @property
    def box(self) -> Box:
        """In pixels."""
        return Box(self.x.start, self.y.end, self.x.end, self.y.start)

    def points(self, data: Sequence[Point]) -> list[Point]:
        """Return data as pixels."""
        return [(self.x(x), self.y(y)) for x, y in data]

    def clipped(self, *parts: str) -> Markup:
        """Cut off everything outside the frame."""
        box = self.box
        width, height = box.right - box.left, box.bottom - box.top
        view = " ".join(coordinate(value) for value in (box.left, box.top, width, height))
        return tag("svg", *parts, x=box.left, y=box.top, width=width, height=height, viewBox=view)

    def across(self, value: float, class_: str) -> Markup:
        """A horizontal line at a value."""
        return line(self.box.left, self.y(value), self.box.right, self.y(value), class_)

    def y_axis(self, count: int = 5, ticks: Sequence[float] | None = None) -> Markup:
        """Grid lines with their numbers on the left."""
        numbers = self.y.ticks(count) if ticks is None else list(ticks)
        return join(
            self.across(number, "grid") + text(label, self.box.left - 8, self.y(number) + 4, "tick", "end")
            for number, label in zip(numbers, tick_texts(numbers), strict=True)
        )

    def x_axis(self, ticks: Sequence[tuple[float, str]]) -> Markup:
        """The line at the bottom with ticks and their texts."""
        box = self.box
        parts = [line(box.left, box.bottom, box.right, box.bottom, "axis")]
        for number, label in ticks:
            x = self.x(number)
            parts += [line(x, box.bottom, x, box.bottom + 5, "axis"), text(label, x, box.bottom + 19, "tick")]
        return join(parts)

    def step_axis(self) -> Markup:
        """The axis at the bottom, in steps of training."""
        numbers = self.x.ticks(4)
        first, *others = tick_texts(numbers)
        return self.x_axis(list(zip(numbers, [f"step {first}", *others], strict=True)))


def mark(shape: MarkShape, x: float, y: float, radius: float, class_: str = "mark") -> Markup:
    """A mark centred on a point."""
    if shape is MarkShape.CIRCLE:
        return tag("circle", class_=class_, cx=x, cy=y, r=radius)
    outline = through([(x + radius * right, y + radius * down) for right, down in _OUTLINES[shape]])
    return tag("path", class_=class_, d=outline + "Z")


def error_bar(x: float, top: float, bottom: float) -> Markup:
    """A vertical bar with caps; nothing where it has no length."""
    if top == bottom:
        return Markup("")
    return join([line(x, top, x, bottom, "bar"), *(line(x - 3.5, end, x + 3.5, end, "bar") for end in (top, bottom))])


def text(content: str, x: float, y: float, class_: str, anchor: str = "middle") -> Markup:
    """A line of text."""
    return tag("text", content, x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: Sequence[Point], class_: str) -> Markup:
    """A line through points."""
    return tag("path", d=through(points), class_=class_)


def through(points: Sequence[Point]) -> str:
    """Return the outline of a line through points.

    >>> through([(0, 1), (2.5, 3)])
    'M0 1L2.5 3'
    """
    return "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points)


def line_sample(class_: str) -> Markup:
    """A sample of a line for a :data:`Key`."""
    return line(1, 8, 29, 8, class_)


def end_labels(
    ends: Sequence[tuple[Point, str, dict[str, str]]], left: float, box: Box, gap: float = LABEL_HEIGHT
) -> Markup:
    """Names of lines to the right of their ends, moved apart; each is given by its end, its name and its attributes."""
    wanted = [min(box.bottom, max(box.top, y)) for (_, y), _, _ in ends]
    heights = spread(wanted, gap, box.top, box.bottom)
    parts = []
    for ((x, _), name, attributes), y, height in zip(ends, wanted, heights, strict=True):
        leader = line(x, y, left - 3, height, "leader")
        parts.append(tag("g", leader, text(name, left, height + 4, "label", "start"), **attributes))
    return join(parts)
