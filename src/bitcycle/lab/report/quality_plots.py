"""Figures of quality: against cost, and against the length or the start of a deficit.

Quality against cost has error bars, groups, the Pareto front, and a line for full precision. Full precision costs many
times as much as all others and would squash them: it becomes a horizontal line with its interval as a band. Settings of
nearly equal cost would cover each other: they are drawn side by side, each in a column of its own, which also holds its
name.

The arms of a deficit experiment are lines with error bars, and drawn side by side where they have one place. A deficit
of length 0 is no deficit in any arm: all lines begin in that point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from markupsafe import Markup

from bitcycle.lab import format as fmt
from bitcycle.lab.report import figures, labels
from bitcycle.lab.report.drawing import DASHES, composed, inline, named_columns, span
from bitcycle.lab.report.figures import COLOURS, NAME_GAP, TIP, Row, Spec, at, layer, number, shortened
from bitcycle.lab.report.labels import FULL, LONGER, ExperimentView, Kind, by_kind, diverged, kind_of, point_lines
from bitcycle.lab.statistics.analysis import Analysis, DeficitAnalysis, Setting

COST_SIZES = (900, 400), (320, 330)
COLUMN = 22
UNITS = ((1e12, "10¹² BitOps"), (1e9, "10⁹ BitOps"), (1e6, "10⁶ BitOps"), (1.0, "BitOps"))
DEFICIT_SIZES = (900, 300), (320, 270)
ARM_GAP = 10
"""The distance of arms that are drawn side by side, in pixels."""
TICK_GAP = 64
"""The distance of labels of the axis, in pixels: enough for any font."""


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
    def image(self) -> str:
        """The wide figure as SVG: drawn once, for the page and for files."""
        return figures.svg(self.wide)

    @cached_property
    def html(self) -> Markup:
        """The figure as an element of a page; the style sheet of the page shows one of both sizes."""
        if self.narrow is None:
            return inline(self.image, self.title)
        narrow = inline(figures.svg(self.narrow), self.title, "narrow")
        return inline(self.image, self.title, "wide") + narrow

    def file(self) -> str:
        """Return the figure with its notes as an SVG file."""
        return composed([self.image], notes=self.notes)


@dataclass(frozen=True)
class Panels:
    """Several figures of a page as one file, two in a row, perhaps with a legend of the colours of their lines."""

    name: str
    title: str
    heading: str
    panels: Sequence[Figure]
    legend: Mapping[str, str] = field(default_factory=dict)

    def file(self) -> str:
        """Return all panels with their names as one SVG file."""
        images, names = [panel.image for panel in self.panels], [panel.name for panel in self.panels]
        return composed(images, names, self.heading, legend=self.legend)


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


def cost_plot(analysis: Analysis) -> Figure | None:
    """Describe the figure; None where no setting has both a quality and a cost."""
    drawn = labels.drawn_settings(analysis)
    full = [setting for setting in drawn if kind_of(setting) is FULL]
    settings = [setting for setting in drawn if kind_of(setting) is not FULL]
    relative = any(labels.has_cost(setting) for setting in settings)
    settings = [setting for setting in settings if labels.has_cost(setting) or not relative]
    if not settings:
        return None
    unit, unit_name = next(each for each in UNITS if max(s.bitops for s in settings) >= each[0] or each[0] == 1)
    costs = [setting.relative_cost if relative else setting.bitops / unit for setting in settings]
    domain, x_title = (
        span(costs, margin=0.07),
        f"{labels.baseline_text(analysis)} = 100 %" if relative else f"in {unit_name}",
    )
    rows = [
        {
            **quality_row(setting, "\n".join(labels.tip_lines(analysis, setting))),
            "name": shortened(setting.label),
            "kind": kind_of(setting).title,
            "front": setting.on_front,
            "fill": kind_of(setting).colour if setting.on_front else COLOURS["paper"],
            "cost": cost,
            "seeds": list(setting.qualities.values()) if len(setting.qualities) > 1 else [],
        }
        for setting, cost in zip(settings, costs, strict=True)
    ]
    references = [quality_row(setting, "\n".join(labels.tip_lines(analysis, setting))) for setting in full]
    y_domain = span(quality_values([*settings, *full]), margin=0.09)
    axis = {"title": f"cost of training, {x_title}"}
    if relative:
        axis["labelExpr"] = "round(100 * datum.value) + ' %'"
    wide, narrow = (
        {
            **quality_title(analysis),
            **points_by_cost(rows, size, domain, y_domain, axis, [kind for kind, _ in by_kind(settings)], references),
        }
        for size in COST_SIZES
    )
    title = f"{analysis.metric} against cost"
    return Figure("cost", title, wide, narrow, _cost_notes(analysis, settings, full))


def points_by_cost(
    rows: Sequence[Row],
    size: tuple[int, int],
    domain: tuple[float, float],
    y_domain: tuple[float, float],
    axis: Spec,
    kinds: Sequence[Kind],
    references: Sequence[Row] = (),
) -> Spec:
    """Describe points with error bars and names, of nearly equal cost side by side.

    Rows have a ``name``, a ``tip``, a ``kind``, a ``cost``, the quality ``y`` from ``low`` to ``high`` and ``fill``;
    perhaps ``seeds``, single values, and ``front``, whether they are on the Pareto front.
    """
    width, height = size
    pixel = (domain[1] - domain[0]) / width
    margin = COLUMN / 2 * pixel
    places = figures.spread([row["cost"] for row in rows], COLUMN * pixel, domain[0] + margin, domain[1] - margin)
    placed = sorted(({**row, "x": x} for row, x in zip(rows, places, strict=True)), key=lambda row: row["x"])
    titles = [kind.title for kind in kinds]
    stroke = {"stroke": figures.kinds("kind", titles, [kind.colour for kind in kinds])}
    shape = {"shape": figures.kinds("kind", titles, [kind.shape for kind in kinds])}
    across = {"x": {"value": 0}, "x2": {"value": width}}
    seeds = [{**row, "y": seed} for row in placed for seed in row.get("seeds", ())]
    front = [{"x": row["x"], "y": row["y"]} for row in placed if row.get("front")]
    bars = {"y": at("low"), "y2": {"field": "high"}}
    layers = [
        layer("rect", references, {**across, **bars, **TIP}, color=COLOURS["full"], opacity=0.13),
        layer("rule", references, {**across, **TIP}, color=COLOURS["full"]),
        layer("rule", placed, {"x": at("cost"), "y": {"value": height}, "y2": {"value": height - 6}},
              color=COLOURS["quiet"], strokeWidth=1, aria=False),
        layer("line", [*front, {**front[-1], "x": domain[1]}] if front else [], interpolate="step-after",
              strokeDash=[5, 4], strokeWidth=1.3, color=COLOURS["quiet"], aria=False),
        layer("rule", placed, {**bars, **stroke, **TIP}),
        layer("point", seeds, {**stroke, **TIP}, size=4, xOffset=8, opacity=0.7),
        layer("point", placed, {**stroke, **shape, **TIP, "fill": figures.exact("fill")}, ariaRole="button"),
        *([named_columns(placed, height, y_domain)] if width / len(rows) >= NAME_GAP else []),
    ]  # fmt: skip
    encoding = {"x": number("x", domain, **axis), "y": number("y", y_domain)}
    return {"width": width, "height": height, "encoding": encoding, "layer": layers}


def _cost_notes(analysis: Analysis, settings: Sequence[Setting], full: Sequence[Setting]) -> list[str]:
    """What the signs of the figure mean."""
    notes = ["Dashed line and filled marks: the Pareto front; no setting is both cheaper and better."]
    if any(fmt.has_interval(setting.quality) for setting in settings):
        notes.append("Bars: the 95 % interval of the mean; dots: single seeds.")
    else:
        notes.append("A single seed: no error bars; one seed cannot separate effect from noise.")
    for setting in full:
        quality, ratio = fmt.fixed(setting.quality.mean, labels.places_of(analysis)), setting.relative_cost
        off_scale = f", {fmt.cost_phrase(ratio)}, off the scale" if ratio > labels.EQUAL else ""
        name = FULL.title if len(full) == 1 else shortened(setting.label)
        notes.append(f"Grey line and band: {name}: {quality}{off_scale}.")
    notes.append("Short lines at the bottom: exact costs; settings of nearly equal cost are drawn side by side.")
    return notes


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
    wide, narrow = (_deficit_spec(analysis, experiment, size) for size in DEFICIT_SIZES)
    several = any(len(point.qualities) > 1 for point in experiment.points)
    note = "Bars: the 95 % interval of the mean." if several else "A single seed: no error bars."
    return Figure(f"deficit-{experiment.name}", title, wide, narrow, [note])


def _deficit_spec(analysis: DeficitAnalysis, experiment: ExperimentView, size: tuple[int, int]) -> Spec:
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
