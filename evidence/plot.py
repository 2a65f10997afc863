"""Quality against cost in one domain: schedules, static widths and the controls at equal cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bitcycle._support.charts.drawing import Drawing, Frame, Key, error_bar, line, mark, text
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle._support.charts.placing import Box, place_label, spread
from bitcycle._support.charts.scale import Scale, span
from bitcycle._support.judging import MIN_SEEDS, Effect, non_inferiority
from bitcycle.lab import format as fmt
from bitcycle.lab.report.style import GROUPS, OTHER, STATIC, Kind
from bitcycle.schedules import TEN, schedule
from evidence.design import Design, Domain
from evidence.figures import StudyFigures, complete_study
from evidence.judging import GAP, HIGH, AllFigures, gap_of, is_shown

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900.0, 420.0, 62.0, 24.0, 34.0, 56.0
RADIUS, SPACING, FONT = 4.5, 15.0, 12.5
DEEPEST = -1.5
"""Settings that lose more gaps than this are named below the plot instead of drawn: they would squash the others."""
GROUP_STEPS = 64_000
"""Groups are those of a long training, in which the ten have their nominal costs."""
CONTROL = "match("
FULL = "full"


@dataclass(frozen=True)
class Point:
    """A setting by its cost, relative to static q_max, and its difference of quality from it, in gaps."""

    setting: str
    group: str | None
    """Its group, if it is one of the ten."""
    cost: float
    mean: float
    lower: float
    upper: float

    @property
    def kind(self) -> Kind:
        """Its shape and colour."""
        if self.group is not None:
            return GROUPS[self.group]
        return OTHER if self.setting.startswith(CONTROL) else STATIC

    @property
    def label(self) -> str:
        """Its name in the plot.

        >>> Point("match(CT, low-high)", None, 0.5, 0.0, 0.0, 0.0).label
        'low-high'
        """
        return self.setting.removeprefix(CONTROL).removesuffix(")").partition(", ")[2] or self.setting


def cost_plot(design: Design, domain: Domain, figures: AllFigures) -> Drawing | None:
    """Draw the study of schedules, judged by the measure of the domain; None if there is nothing to draw.

    A study is drawn when all of its judging runs are done, as it is judged.
    """
    study = complete_study(design, domain, GAP, figures.get((domain.id, GAP)))
    gap = gap_of(design, domain, figures, domain.measure)
    if study is None or gap is None or not is_shown(gap):
        return None
    points = _points(domain, study, gap)
    drawn = sorted((point for point in points if point.mean >= DEEPEST), key=lambda point: point.cost)
    if len(drawn) < 2:
        return None
    x = Scale(*span([point.cost for point in drawn], margin=0.09), LEFT, WIDTH - RIGHT)
    ends = [end for point in drawn for end in (max(point.lower, DEEPEST), point.upper)]
    frame = Frame(x, Scale(*span([*ends, 0.0]), HEIGHT - BOTTOM, TOP))
    places = spread([x(point.cost) for point in drawn], SPACING, x.start, x.end)
    numbers = x.ticks(8)
    content = [
        text("quality against static q_max, in gaps", LEFT, 16, "title", "start"),
        text("cost of training, static q_max = 100 %", (x.start + x.end) / 2, HEIGHT - 12, "title"),
        frame.y_axis() + frame.x_axis([(number, fmt.percent(number, 0)) for number in numbers]),
        frame.across(0.0, "reference"),
        *(line(x(point.cost), HEIGHT - BOTTOM - 6, x(point.cost), HEIGHT - BOTTOM, "rug") for point in drawn),
        frame.clipped(*_marks(drawn, places, frame)),
        *_labels(drawn, places, frame),
    ]
    left_out = [f"{point.setting} ({fmt.fixed(point.mean, 2, signed=True)})" for point in points if point not in drawn]
    description = f"{fmt.count(len(drawn), 'setting')}, bars from lower to upper bound"
    note = "Settings of nearly equal cost are drawn side by side; the short lines at the bottom are exact costs."
    note += f" Too low to be drawn: {', '.join(left_out)}." if left_out else ""
    return Drawing(WIDTH, HEIGHT, f"{domain.title}: quality against cost", description, join(content), note, _key())


def _points(domain: Domain, study: StudyFigures, gap: Effect) -> list[Point]:
    qualities, costs = study.by_setting(domain.measure), study.costs()
    specs = {figure.setting: figure.schedule for figure in study.figures}
    points = []
    for setting, by_seed in qualities.items():
        paired = {seed for seed in by_seed if seed in qualities[HIGH]}
        finite = all(math.isfinite(by_seed[seed]) for seed in paired)
        if setting == FULL or len(paired) < MIN_SEEDS or not finite:
            continue
        found = non_inferiority(by_seed, qualities[HIGH], margin=0.0)
        numbers = (value / gap.mean for value in (found.mean, found.lower, found.upper))
        group = schedule(specs[setting]).group(GROUP_STEPS) if setting in TEN else None
        points.append(Point(setting, group, costs[setting] / costs[HIGH], *numbers))
    return points


def _marks(points: list[Point], places: list[float], frame: Frame) -> list[Markup]:
    return [
        tag(
            "g",
            tag("title", f"{point.setting}: {fmt.fixed(point.mean, 2, signed=True)}"),
            error_bar(place, frame.y(point.upper), frame.y(point.lower)),
            mark(point.kind.shape, place, frame.y(point.mean), RADIUS),
            class_=point.kind.class_,
        )
        for point, place in zip(points, places, strict=True)
    ]


def _labels(points: list[Point], places: list[float], frame: Frame) -> list[Markup]:
    boxes = [
        Box(place - RADIUS, frame.y(point.upper) - RADIUS, place + RADIUS, frame.y(max(point.lower, DEEPEST)) + RADIUS)
        for point, place in zip(points, places, strict=True)
    ]
    labels: list[Markup] = []
    taken: list[Box] = []
    for i, point in enumerate(points):
        label = place_label(point.label, FONT, boxes[i], [*boxes[:i], *boxes[i + 1 :], *taken], frame.box)
        taken.append(label.box)
        labels.append(leader(places[i], boxes[i], label.box, point.kind.class_))
        labels.append(text(point.label, label.x, label.y, f"label {point.kind.class_}", label.anchor))
    return labels


def leader(place: float, point: Box, label: Box, class_: str) -> Markup:
    """Draw a line from a point to its label if the label had to be moved away; nothing otherwise."""
    above, below = point.top - label.bottom, label.top - point.bottom
    if max(above, below) < FONT / 2:
        return Markup("")
    ends = (label.bottom, point.top) if above > below else (point.bottom, label.top)
    return line(place, ends[0], place, ends[1], f"leader {class_}")


def _key() -> Key:
    titles = {kind: kind.title for kind in GROUPS.values()}
    titles |= {STATIC: "static", OTHER: "controls at the cost of CT or RTH"}
    return tuple(
        (tag("g", mark(kind.shape, 15, 8, RADIUS), class_=kind.class_), title) for kind, title in titles.items()
    )
