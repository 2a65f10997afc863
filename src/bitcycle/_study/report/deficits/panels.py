"""The measurements along training: a small plot each, with a line for every length and for what has no deficit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bitcycle._study.report import words
from bitcycle._study.report.curve_data import Points
from bitcycle._study.report.deficits.courses import Trained, courses, measured
from bitcycle._study.report.deficits.meanings import MEANINGS, UNKNOWN
from bitcycle._study.report.deficits.shades import LONG_CONTROL
from bitcycle._study.report.markup import Markup, join, tag
from bitcycle._study.report.scale import Scale, span, tick_texts
from bitcycle._study.report.svg import Frame, drawing, line, path, x_axis, y_axis

WIDTH, HEIGHT, TOP, LEFT, RIGHT = 460.0, 210.0, 14.0, 56.0, 24.0
SPANS = 10
"""Values that span more than such a factor are drawn by their logarithm."""


@dataclass(frozen=True)
class Panel:
    """A measurement with everything that its plot shows."""

    name: str
    sentence: str
    threshold: float | None
    lines: list[tuple[Trained, Points]]
    steps: float
    low: float
    high: float
    logarithmic: bool

    @property
    def title(self) -> str:
        """The name, with what kind of scale it has."""
        return self.name + (", logarithmic scale" if self.logarithmic else "")


def panels_of(lines: Sequence[Trained]) -> list[Panel]:
    """A panel for each measurement that has a value."""
    panels = []
    steps = max((record.run.steps for each in lines for record in each.records), default=1)
    for name in measured(lines):
        drawn = list(courses(lines, name))
        if not drawn:
            continue
        meaning = MEANINGS.get(name, UNKNOWN)
        values = [value for _, points in drawn for _, value in points]
        values += [] if meaning.threshold is None else [meaning.threshold]
        wide = min(values) > 0 and max(values) > SPANS * min(values)
        low, high = (min(values) / 1.3, max(values) * 1.3) if wide else span(values)
        panels.append(Panel(name, meaning.sentence, meaning.threshold, drawn, steps, low, high, wide))
    return panels


def drawn_in_turn(panel: Panel) -> list[tuple[Trained, Points]]:
    """The lines in the order in which to draw them: as long as two deficits last, the later one covers the other.

    So the shortest comes last, and what has no deficit first.
    """
    return sorted(panel.lines, key=lambda line: line[0].ends or math.inf, reverse=True)


def length_chips(lines: Sequence[Trained], what: str) -> Markup:
    """The lines with their colours: a legend, and buttons that select."""
    chips = []
    for each in lines:
        sample = tag(
            "svg", line(0, 7, 22, 7, _stroke(each)), viewBox="0 0 22 14", class_="chip-line", aria_hidden="true"
        )
        button = {"type": "button", "data_setting": each.key, "aria_pressed": "false", "data_tip": each.label}
        chips.append(tag("button", sample, each.short, class_=f"chip {each.shade}", **button))
    group = tag("div", tag("span", what, class_="hint"), *chips, class_="chip-group")
    return tag("div", group, class_="chips", role="group", aria_label="Select a line in all of these plots")


def measurement_panels(panels: Sequence[Panel]) -> Markup:
    """All plots."""
    figures = []
    for panel in panels:
        said = tag("span", panel.sentence, class_="hint meaning") if panel.sentence else ""
        caption = tag("figcaption", tag("strong", panel.title), said)
        figures.append(tag("figure", caption, _plot(panel), class_="panel"))
    return tag("div", *figures, class_="panels")


def _plot(panel: Panel) -> Markup:
    y = Scale(panel.low, panel.high, HEIGHT, TOP, panel.logarithmic)
    frame = Frame(Scale(0, panel.steps, LEFT, WIDTH - RIGHT), y)
    box = frame.box
    threshold = Markup("")
    if panel.threshold is not None:
        threshold = line(box.left, y(panel.threshold), box.right, y(panel.threshold), "threshold")
    numbers = frame.x.ticks(4)
    first, *others = tick_texts(numbers)
    return drawing(
        WIDTH,
        HEIGHT + 32,
        panel.title,
        f"over {panel.steps:,} steps of training; {words.listed(each.label for each, _ in panel.lines)}",
        y_axis(frame, 4),
        threshold,
        join(_course(panel, each, points, frame) for each, points in drawn_in_turn(panel)),
        x_axis(frame, numbers, [f"step {first}", *others]),
        class_="plot",
        role="img",
    )


def _course(panel: Panel, each: Trained, points: Points, frame: Frame) -> Markup:
    """A line with a dot where its deficit ends; few points have a dot each."""
    places = [(frame.x(step), frame.y(value)) for step, value in points]
    parts = [path(places, "hit"), path(places, _stroke(each))] if len(places) > 1 else []
    ended = [place for (step, _), place in zip(points, places, strict=True) if each.ends and step >= each.ends]
    for x, y in places if len(places) < 4 else ended[:1]:
        parts.append(tag("circle", cx=x, cy=y, r=3.6, class_="mark"))
    step, value = points[-1]
    said = words.fixed(value, min(6, words.decimals([value])))
    tip = f"{each.label}\n{panel.name} {said} at step {step:,.0f}"
    return tag("g", *parts, class_=f"course {each.shade}", data_setting=each.key, data_tip=tip)


def _stroke(each: Trained) -> str:
    return "stroke dash-1" if each.shade == LONG_CONTROL else "stroke"
