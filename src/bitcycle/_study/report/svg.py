"""The parts that all plots of the page are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bitcycle._study.report.look import Kind
from bitcycle._study.report.markup import Markup, coordinate, join, tag
from bitcycle._study.report.placing import Box
from bitcycle._study.report.scale import Scale, tick_texts

# Outlines of marks of radius 1, all of about the same area.
_OUTLINES = {
    "square": "M-.9-.9H.9V.9H-.9Z",
    "diamond": "M0-1.25L1.25 0L0 1.25L-1.25 0Z",
    "triangle": "M0-1.25L1.2.9H-1.2Z",
    "cross": "M-1-.45L-.45-1L0-.5L.45-1L1-.45L.5 0L1 .45L.45 1L0 .5L-.45 1L-1 .45L-.5 0Z",
    "flag": "M0 1.25L1.2-.9H-1.2Z",
}


@dataclass(frozen=True)
class Frame:
    """The room in which a plot draws its numbers."""

    x: Scale
    y: Scale

    @property
    def box(self) -> Box:
        """In pixels."""
        return Box(self.x.start, self.y.end, self.x.end, self.y.start)


def drawing(width: float, height: float, title: str, description: str, *parts: str, class_: str, role: str) -> Markup:
    """An SVG drawing with a name and a description for those who do not see it.

    The role is ``img``, or ``group`` where parts of the drawing can be chosen by keyboard: an image has no parts.

    >>> drawing(10, 10, "a<b", "nothing", class_="plot", role="img")[:70]
    '<svg viewBox="0 0 10 10" class="plot" role="img" aria-label="a&lt;b: n'
    """
    view = f"0 0 {coordinate(width)} {coordinate(height)}"
    return tag("svg", *parts, viewBox=view, class_=class_, role=role, aria_label=f"{title}: {description}")


def mark(kind: Kind, x: float, y: float, radius: float, class_: str = "mark") -> Markup:
    """The mark of a kind, around a place."""
    if kind.shape == "circle":
        return tag("circle", class_=class_, cx=x, cy=y, r=radius)
    where = f"translate({coordinate(x)} {coordinate(y)}) scale({coordinate(radius)})"
    return tag("path", class_=class_, transform=where, d=_OUTLINES[kind.shape])


def text(content: str, x: float, y: float, class_: str = "", anchor: str = "middle") -> Markup:
    """A line of text."""
    return tag("text", content, x=x, y=y, text_anchor=anchor, class_=class_ or None)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line through points."""
    return tag("path", d=through(points), class_=class_)


def through(points: Sequence[tuple[float, float]]) -> str:
    """The outline of a line through points.

    >>> through([(0, 1), (2.5, 3)])
    'M0 1L2.5 3'
    """
    return "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points)


def y_axis(frame: Frame, count: int = 5) -> Markup:
    """Grid lines with their numbers at the left."""
    numbers = frame.y.ticks(count)
    box = frame.box
    parts = []
    for number, words in zip(numbers, tick_texts(numbers), strict=True):
        y = frame.y(number)
        parts += [line(box.left, y, box.right, y, "grid"), text(words, box.left - 8, y + 4, "tick", "end")]
    return join(parts)


def x_axis(frame: Frame, numbers: Sequence[float], texts: Sequence[str]) -> Markup:
    """The line at the foot with ticks and their numbers."""
    box = frame.box
    parts = [line(box.left, box.bottom, box.right, box.bottom, "axis")]
    for number, words in zip(numbers, texts, strict=True):
        x = frame.x(number)
        parts += [line(x, box.bottom, x, box.bottom + 5, "axis"), text(words, x, box.bottom + 19, "tick")]
    return join(parts)
