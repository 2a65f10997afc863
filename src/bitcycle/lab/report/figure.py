"""A figure of a report, and what the figures of a quality share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from markupsafe import Markup

from bitcycle._support import figures
from bitcycle._support.figures import Row, Spec, shortened
from bitcycle.lab import format as fmt
from bitcycle.lab.report import labels


@dataclass(frozen=True)
class Figure:
    """A figure: for wide and narrow pages, and as files."""

    name: str
    """The beginning of its file names."""
    title: str
    """What it shows, for readers who do not see it."""
    wide: Spec
    narrow: Spec | None = None
    """None if the wide figure is for narrow pages too, because it is one of several panels."""
    notes: list[str] = field(default_factory=list)
    """What its signs mean."""

    @cached_property
    def html(self) -> Markup:
        """The figure as an element of a page; the style sheet of the page shows one of both sizes."""
        if self.narrow is None:
            return figures.inline(self.wide, self.title)
        return figures.inline(self.wide, self.title, "wide") + figures.inline(self.narrow, self.title, "narrow")

    def file(self) -> str:
        """Return the figure with its notes as an SVG file."""
        title = self.wide.get("title", {"text": self.title})
        return figures.svg({**self.wide, "title": {**title, "subtitle": [*title.get("subtitle", []), *self.notes]}})


def panel_file(
    name: str, title: str, heading: str, panels: Sequence[Figure], legend: Mapping[str, str] | None = None
) -> Figure:
    """Return several panels as one figure, two in a row, perhaps with a legend of the colours of their lines."""
    views = [{**panel.wide, "title": {"text": panel.name}} for panel in panels]
    if legend:
        colours = {"stroke": figures.kinds("line", list(legend), list(legend.values()))}
        views[0]["layer"] = [*views[0]["layer"], figures.layer("line", [], colours)]
    return Figure(name, title, {"concat": views, "columns": 2, "spacing": 40, "title": {"text": heading}})


def quality_row(row: labels.Measured, tip: str) -> Row:
    """Return a quality as data; the ends of its bar are the mean where there is no interval."""
    quality = row.quality
    low, high = (quality.low, quality.high) if fmt.has_interval(quality) else (quality.mean, quality.mean)
    return {"y": quality.mean, "low": low, "high": high, "tip": tip}


def quality_values(rows: Sequence[labels.Measured], seeds: bool = True) -> list[float]:
    """Return what an axis has to hold: means, intervals, and the values of single seeds if wanted."""
    values = [value for row in rows for value in (row.quality.mean, row.quality.low, row.quality.high)]
    return values + [value for row in rows for value in row.qualities.values()] if seeds else values


def quality_title(analysis: labels.AnyAnalysis) -> Spec:
    """Return the title of a figure of a quality: the metric, and which direction is better."""
    arrow = "↑" if analysis.higher_is_better else "↓"
    text = f"{shortened(analysis.metric, 30)} on the test set, {arrow} {labels.better_text(analysis)}"
    return {"title": {"text": text}}
