"""Quality against cost in one domain: schedules, static widths and the controls at equal cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bitcycle._support.figures import span
from bitcycle.lab import format as fmt
from bitcycle.lab.judging import MIN_SEEDS, Effect, non_inferiority
from bitcycle.lab.report.labels import GROUPS, OTHER, STATIC, Kind
from bitcycle.lab.report.quality_plots import Figure, points_by_cost
from bitcycle.schedules import TEN, schedule
from evidence.design import Design, Domain
from evidence.figures import StudyFigures, complete_study
from evidence.judging import GAP, HIGH, AllFigures, gap_of, is_shown

SIZE = (860, 330)
DEEPEST = -1.5
"""Settings that lose more gaps than this are named below the plot instead of drawn: they would squash the others."""
GROUP_STEPS = 64_000
"""Groups are those of a long training, in which the ten have their nominal costs."""
CONTROL = "match("
CONTROLS = replace(OTHER, title="controls at the cost of CT or RTH")
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
        return CONTROLS if self.setting.startswith(CONTROL) else STATIC

    @property
    def label(self) -> str:
        """Its name in the plot.

        >>> Point("match(CT, low-high)", None, 0.5, 0.0, 0.0, 0.0).label
        'low-high'
        """
        return self.setting.removeprefix(CONTROL).removesuffix(")").partition(", ")[2] or self.setting


def cost_plot(design: Design, domain: Domain, figures: AllFigures) -> Figure | None:
    """Describe the study of schedules, judged by the measure of the domain; None if there is nothing to draw.

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
    ends = [end for point in drawn for end in (max(point.lower, DEEPEST), point.upper)]
    rows = [
        {
            "name": point.label,
            "kind": point.kind.title,
            "fill": point.kind.colour,
            "cost": point.cost,
            "y": point.mean,
            "low": max(point.lower, DEEPEST),
            "high": point.upper,
            "tip": f"{point.setting}\n{fmt.fixed(point.mean, 2, signed=True)}",
        }
        for point in drawn
    ]
    zero = {"y": 0.0, "low": 0.0, "high": 0.0, "tip": HIGH}
    axis = {"title": "cost of training, static q_max = 100 %", "labelExpr": "round(100 * datum.value) + ' %'"}
    domains = span([point.cost for point in drawn], margin=0.09), span([*ends, 0.0])
    kinds = [kind for kind in (*GROUPS.values(), STATIC, CONTROLS) if any(point.kind is kind for point in drawn)]
    title = {"title": {"text": "quality against static q_max, in gaps"}}
    left_out = [f"{point.setting} ({fmt.fixed(point.mean, 2, signed=True)})" for point in points if point not in drawn]
    notes = ["Settings of nearly equal cost are drawn side by side; the short lines at the bottom are exact costs."]
    notes += [f"Too low to be drawn: {', '.join(left_out)}."] if left_out else []
    spec = {**title, **points_by_cost(rows, SIZE, *domains, axis, kinds, [zero])}
    return Figure("cost", f"{domain.title}: quality against cost", spec, notes=notes)


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
