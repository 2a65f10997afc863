"""Quality against cost in one domain: schedules, static widths and the controls at equal cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from bitcycle.lab import format as fmt
from bitcycle.lab.judging import MIN_SEEDS, non_inferiority
from bitcycle.lab.report.drawing import span
from bitcycle.lab.report.labels import GROUPS, OTHER, STATIC
from bitcycle.lab.report.quality_plots import Figure, points_by_cost
from bitcycle.schedules import TEN, schedule
from evidence.design import Design, Domain
from evidence.figures import AllFigures, complete_study
from evidence.judging import GAP, HIGH, gap_of

SIZE = (860, 330)
DEEPEST = -1.5
"""Settings that lose more gaps than this are named below the plot instead of drawn: they would squash the others."""
GROUP_STEPS = 64_000
"""Groups are those of a long training, in which the ten have their nominal costs."""
CONTROL = "match("
CONTROLS = replace(OTHER, title="controls at the cost of CT or RTH")
FULL = "full"


def cost_plot(design: Design, domain: Domain, figures: AllFigures) -> Figure | None:
    """Describe the study of schedules, judged by the measure of the domain; None if there is nothing to draw.

    A study is drawn when all of its judging runs are done, as it is judged. A point is a setting by its cost, relative
    to static q_max, and its difference of quality from it, in gaps.
    """
    study = complete_study(design, domain, GAP, figures)
    gap = gap_of(design, domain, figures, domain.measure)
    if study is None or gap is None or not gap.lower > 0:
        return None
    qualities, costs = study.by_setting(domain.measure), study.costs()
    specs = {figure.setting: figure.schedule for figure in study.figures}
    rows: list[dict[str, Any]] = []
    left_out = []
    for setting, by_seed in qualities.items():
        found = non_inferiority(by_seed, qualities[HIGH], margin=0.0)
        if setting == FULL or found.seeds < MIN_SEEDS or not math.isfinite(found.mean):
            continue
        mean, lower, upper = (value / gap.mean for value in (found.mean, found.lower, found.upper))
        signed = fmt.fixed(mean, 2, signed=True)
        if mean < DEEPEST:
            left_out.append(f"{setting} ({signed})")
            continue
        group = schedule(specs[setting]).group(GROUP_STEPS) if setting in TEN else None
        kind = GROUPS[group] if group else CONTROLS if setting.startswith(CONTROL) else STATIC
        rows.append(
            {
                "name": setting.removeprefix(CONTROL).removesuffix(")").partition(", ")[2] or setting,
                "kind": kind.title,
                "fill": kind.colour,
                "cost": costs[setting] / costs[HIGH],
                "y": mean,
                "low": max(lower, DEEPEST),
                "high": upper,
                "tip": f"{setting}\n{signed}",
            }
        )
    if len(rows) < 2:
        return None
    rows.sort(key=lambda row: row["cost"])
    zero = {"y": 0.0, "low": 0.0, "high": 0.0, "tip": HIGH}
    axis = {"title": "cost of training, static q_max = 100 %", "labelExpr": "round(100 * datum.value) + ' %'"}
    ends = [row[end] for row in rows for end in ("low", "high")]
    domains = span([row["cost"] for row in rows], margin=0.09), span([*ends, 0.0])
    titles = {row["kind"] for row in rows}
    kinds = [kind for kind in (*GROUPS.values(), STATIC, CONTROLS) if kind.title in titles]
    title = {"title": {"text": "quality against static q_max, in gaps"}}
    notes = ["Settings of nearly equal cost are drawn side by side; the short lines at the bottom are exact costs."]
    notes += [f"Too low to be drawn: {', '.join(left_out)}."] if left_out else []
    spec = {**title, **points_by_cost(rows, SIZE, *domains, axis, kinds, [zero])}
    return Figure("cost", f"{domain.title}: quality against cost", spec, notes=notes)
