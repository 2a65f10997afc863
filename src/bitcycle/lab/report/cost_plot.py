"""Quality against cost: error bars, groups, the Pareto front, and a line for full precision.

Full precision costs many times as much as all others and would squash them: it becomes a horizontal line with its
interval as a band. Settings of nearly equal cost would cover each other: they are drawn side by side, each in a column
of its own, which also holds its name.
"""

from __future__ import annotations

from collections.abc import Sequence

from bitcycle._support import figures
from bitcycle._support.figures import COLOURS, NAME_GAP, TIP, Row, Spec, layer, number, shortened, span
from bitcycle.lab import format as fmt
from bitcycle.lab.report import labels
from bitcycle.lab.report.figure import Figure, quality_row, quality_title, quality_values
from bitcycle.lab.report.style import FULL, Kind, by_kind, kind_of
from bitcycle.lab.statistics.analysis import Analysis, Setting

WIDE, NARROW = (900, 400), (320, 330)
COLUMN = 22
UNITS = ((1e12, "10¹² BitOps"), (1e9, "10⁹ BitOps"), (1e6, "10⁶ BitOps"), (1.0, "BitOps"))


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
        for size in (WIDE, NARROW)
    )
    title = f"{analysis.metric} against cost"
    return Figure("cost", title, wide, narrow, _notes(analysis, settings, full))


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
    bars = {"y": figures.at("low"), "y2": {"field": "high"}}
    layers = [
        layer("rect", references, {**across, **bars, **TIP}, color=COLOURS["full"], opacity=0.13),
        layer("rule", references, {**across, **TIP}, color=COLOURS["full"]),
        layer("rule", placed, {"x": figures.at("cost"), "y": {"value": height}, "y2": {"value": height - 6}},
              color=COLOURS["quiet"], strokeWidth=1, aria=False),
        layer("line", [*front, {**front[-1], "x": domain[1]}] if front else [], interpolate="step-after",
              strokeDash=[5, 4], strokeWidth=1.3, color=COLOURS["quiet"], aria=False),
        layer("rule", placed, {**bars, **stroke, **TIP}),
        layer("point", seeds, {**stroke, **TIP}, size=4, xOffset=8, opacity=0.7),
        layer("point", placed, {**stroke, **shape, **TIP, "fill": figures.exact("fill")}, ariaRole="button"),
        *([figures.named_columns(placed, height, y_domain)] if width / len(rows) >= NAME_GAP else []),
    ]  # fmt: skip
    encoding = {"x": number("x", domain, **axis), "y": number("y", y_domain)}
    return {"width": width, "height": height, "encoding": encoding, "layer": layers}


def _notes(analysis: Analysis, settings: Sequence[Setting], full: Sequence[Setting]) -> list[str]:
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
