"""What the plots of a quality share: the size, the scale, the titles, marks with error bars, and their key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from bitcycle._support.charts.drawing import Frame, error_bar, mark, text
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle._support.charts.placing import shortened
from bitcycle._support.charts.scale import Scale, span
from bitcycle.lab import format as fmt
from bitcycle.lab.report import labels
from bitcycle.lab.report.style import Kind

Row = TypeVar("Row", bound=labels.Measured)


@dataclass(frozen=True)
class PlotSize:
    """The dimensions of a plot, in pixels."""

    width: float
    height: float
    left: float
    right: float
    radius: float
    spacing: float
    """The distance of marks that are drawn side by side, and the width of the area that reacts to a pointer."""

    @property
    def narrow(self) -> bool:
        """Whether it is for a phone, where there is room for few texts."""
        return self.width < 600


@dataclass(frozen=True)
class Mark(Generic[Row]):
    """A mean on a plot; the ends of its error bar are equal to ``y`` where there is no interval."""

    row: Row
    x: float
    y: float
    top: float
    bottom: float

    @classmethod
    def at(cls, x: float, row: Row, frame: Frame) -> Mark[Row]:
        """Return the mark of a row at a horizontal position."""
        quality = row.quality
        ends = (quality.high, quality.low) if fmt.has_interval(quality) else (quality.mean, quality.mean)
        return cls(row, x, frame.y(quality.mean), *map(frame.y, ends))

    def draw(self, kind: Kind, size: PlotSize, attributes: dict[str, str], *more: str, class_: str = "mark") -> Markup:
        """Draw the mark on its error bar, with an area around both that reacts to a pointer."""
        left, height = self.x - size.spacing / 2, self.bottom - self.top + 18
        return tag(
            "g",
            tag("rect", x=left, y=self.top - 9, width=size.spacing, height=height, class_="hit"),
            error_bar(self.x, self.top, self.bottom),
            mark(kind.shape, self.x, self.y, size.radius, class_),
            *more,
            **attributes,
        )


def selectable(kind: Kind, key: str, lines: Sequence[str]) -> dict[str, str]:
    """Return the attributes of a part of a drawing that has a tooltip and can be selected, also by keyboard."""
    pressed = {"tabindex": "0", "role": "button", "aria_pressed": "false", "aria_label": "; ".join(lines)}
    return {"class_": f"point {kind.class_}", **pressed, "data_setting": key, "data_tip": "\n".join(lines)}


def quality_scale(rows: Sequence[labels.Measured], start: float, end: float, seeds: bool = True) -> Scale:
    """Return a scale that holds the means and intervals, and the values of single seeds if wanted."""
    values = [value for row in rows for value in (row.quality.mean, row.quality.low, row.quality.high)]
    values += [value for row in rows for value in row.qualities.values()] if seeds else []
    return Scale(*span(values, margin=0.09), start, end)


def plot_titles(analysis: labels.AnyAnalysis, x_title: str, frame: Frame, height: float) -> Markup:
    """Return the titles of the axes, and which direction is better."""
    arrow = "↑" if analysis.higher_is_better else "↓"
    return join(
        [
            text(f"{shortened(analysis.metric)} on the test set", 0, 18, "title", "start"),
            text(f"{arrow} {labels.better_text(analysis)}", frame.box.right, 18, "hint", "end"),
            text(x_title, frame.box.right, height - 8, "title", "end"),
        ]
    )


def interval_key(kind: Kind, rows: Sequence[labels.Measured], class_: str = "mark") -> tuple[Markup, str]:
    """Return a sample of a mean with its error bar, or say that there are none."""
    if not any(fmt.has_interval(row.quality) for row in rows):
        return Markup(""), "a single seed: no error bars; one seed cannot separate effect from noise"
    sample = error_bar(15, 1, 15) + mark(kind.shape, 15, 8, 4, class_)
    return tag("g", sample, class_=kind.class_), "mean and its 95 % interval"
