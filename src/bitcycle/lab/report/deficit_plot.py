"""Final quality against the length or the start of a deficit: a line with error bars for each arm.

The arms of one place would cover each other: they are drawn side by side. A deficit of length 0 is no deficit in any
arm: all lines begin in that point.
"""

from __future__ import annotations

from itertools import pairwise

from bitcycle._support import figures
from bitcycle._support.figures import DASHES, TIP, Row, Spec, at, layer, number, span
from bitcycle.lab.report.figure import Figure, quality_row, quality_title, quality_values
from bitcycle.lab.report.labels import ExperimentView, diverged, point_lines
from bitcycle.lab.report.style import LONGER
from bitcycle.lab.statistics.analysis import DeficitAnalysis

WIDE, NARROW = (900, 300), (320, 270)
ARM_GAP = 10
"""The distance of arms that are drawn side by side, in pixels."""

TICK_GAP = 64
"""The distance of labels of the axis, in pixels: enough for any font."""


def deficit_rows(analysis: DeficitAnalysis, experiment: ExperimentView, width: int) -> tuple[list[Row], list[Row]]:
    """Return the points of all arms, side by side, and those that the lines go through."""
    points = [point for point in experiment.points if not diverged(point)]
    arms = [arm for arm in experiment.arms if any(point.arm == arm.name for point in points)]
    places = sorted({point.share for point in points})
    pixel = _length(places) / width
    # Less where places are close, so that the arms of two places never mix.
    apart = min(ARM_GAP * pixel, min((b - a for a, b in pairwise(places)), default=1.0) / 4)
    rows, lines = [], []
    origin = [quality_row(point, "") for point in points if experiment.without_deficit(point)]
    for i, arm in enumerate(arms):
        shift = apart * (i - (len(arms) - 1) / 2)
        own = [
            {
                **quality_row(point, "\n".join(point_lines(analysis, experiment, point))),
                "x": point.share + (0 if experiment.without_deficit(point) else shift),
                "share": point.share,
                "arm": arm.title,
            }
            for point in points
            if point.arm == arm.name
        ]
        start = [] if arm is LONGER else [{**row, "x": 0.0, "arm": arm.title, "tip": own[0]["tip"]} for row in origin]
        rows += own
        lines += [*start, *own]
    return rows, lines


def deficit_plot(analysis: DeficitAnalysis, experiment: ExperimentView) -> Figure | None:
    """Describe the figure; None where no arm has a quality to show."""
    if all(diverged(point) for point in experiment.points):
        return None
    title = f"quality against the {experiment.column} of the deficit"
    wide, narrow = (_spec(analysis, experiment, size) for size in (WIDE, NARROW))
    several = any(len(point.qualities) > 1 for point in experiment.points)
    note = "Bars: the 95 % interval of the mean." if several else "A single seed: no error bars."
    return Figure(f"deficit-{experiment.name}", title, wide, narrow, [note])


def _spec(analysis: DeficitAnalysis, experiment: ExperimentView, size: tuple[int, int]) -> Spec:
    rows, lines = deficit_rows(analysis, experiment, size[0])
    points = [point for point in experiment.points if not diverged(point)]
    places, titles = sorted({row["share"] for row in rows}), [arm.title for arm in experiment.arms]
    room = 2.5 * ARM_GAP * _length(places) / size[0]
    ticks: list[float] = []
    for place in places:
        if not ticks or place - ticks[-1] >= TICK_GAP * _length(places) / size[0]:
            ticks.append(place)
    axis: Spec = {
        "title": f"{experiment.axis}, and in steps",
        "values": ticks,
        "labelFlush": False,
        "labelExpr": f"[format(datum.value, '.3~g'), format({analysis.steps} * datum.value, ',.0f')]",
    }
    stroke = {"stroke": figures.kinds("arm", titles, [arm.colour for arm in experiment.arms])}
    fill = {"fill": figures.kinds("arm", titles, [arm.colour for arm in experiment.arms])}
    shape = {"shape": figures.kinds("arm", titles, [arm.shape for arm in experiment.arms])}
    dash = {"strokeDash": figures.kinds("arm", titles, [DASHES[arm.dash] for arm in experiment.arms])}
    return {
        **quality_title(analysis),
        "width": size[0],
        "height": size[1],
        "encoding": {
            "x": number("x", (places[0] - room, places[-1] + room), **axis),
            "y": number("y", span(quality_values(points, seeds=False), margin=0.09)),
        },
        "layer": [
            layer("line", lines, {**stroke, **dash, **TIP}),
            layer("rule", rows, {"y": at("low"), "y2": {"field": "high"}, **stroke, **TIP}),
            layer("point", rows, {**stroke, **fill, **shape, **TIP}, ariaRole="button"),
        ],
    }


def _length(places: list[float]) -> float:
    return places[-1] - places[0] or 1.0
