"""A range test as a figure: the short trainings, and the share of full precision's progress that each level keeps.

It is described in Vega-Lite and drawn by vl-convert (extra ``study``).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from bitcycle._support.extras import need

if TYPE_CHECKING:
    from bitcycle._range_test import RangeTestResult

Spec = dict[str, Any]
HEIGHT = 240
WORST, BEST = -0.25, 1.25  # shares beyond are drawn here
OUTCOMES: Spec = {"domain": ["training works", "training fails"], "range": ["#0072b2", "#d55e00"]}
CONFIG: Spec = {
    "font": "Liberation Sans, Arial, sans-serif",
    "view": {"stroke": None, "continuousWidth": 400, "continuousHeight": HEIGHT},
    "axis": {"labelFontSize": 12, "titleFontSize": 13, "gridColor": "#dedfdb"},
    "legend": {"labelFontSize": 12, "title": None},
    "title": {"anchor": "start", "frame": "group", "offset": 12},
}


def draw_range_test(test: RangeTestResult, path: Path) -> None:
    """Draw the curves of all levels and what they keep, and save the figure as PNG or SVG.

    Raises:
        ValueError: If the path ends in neither ``.png`` nor ``.svg``.
    """
    suffix = path.suffix.lower()
    if suffix not in (".png", ".svg"):
        raise ValueError(f"a figure is a .png or .svg file, not {path.name!r}")
    outcome = "no q_min" if test.q_min is None else f"q_min = {test.q_min} bits"
    title = {"text": f"Precision range test: {outcome}", "subtitle": ["Dotted: the share that a level has to keep."]}
    panels = {"hconcat": [_curves(test), _kept(test)], "spacing": 60, "resolve": {"legend": {"color": "independent"}}}
    spec = json.dumps({"title": title, **panels}, allow_nan=False)
    vl_convert = need("vl_convert", "study", "drawing")
    if suffix == ".png":
        path.write_bytes(vl_convert.vegalite_to_png(spec, config=CONFIG, scale=2))
    else:
        path.write_text(vl_convert.vegalite_to_svg(spec, config=CONFIG), encoding="utf-8")


def _curves(test: RangeTestResult) -> Spec:
    """The median over seeds of each level, on the scale of full precision's own curve."""
    rows = [*test.evidence, test.reference]
    curves = {row.bits: [median(values) for values in zip(*row.curves, strict=False)] for row in rows}
    own = curves[test.reference.bits]
    reach = (max(own) - min(own)) or 1.0
    values = [value for row in rows if not row.diverged for value in curves[row.bits]]
    low = max(min(values, default=0.0), min(own) - reach) - 0.05 * reach
    high = min(max(values, default=1.0), max(own) + reach) + 0.05 * reach
    points = [
        {"x": i, "y": value, "level": "full" if row.bits is None else f"{row.bits} bits"}
        for row in rows
        for i, value in enumerate(np.clip(curves[row.bits], low - reach, high + reach).tolist())
        if not math.isnan(value)
    ]
    return {
        "title": "Value that the step returns, median over seeds",
        "data": {"values": points},
        "mark": {"type": "line", "clip": True},
        "encoding": {
            "x": _number("x", (0, max(1, len(own) - 1)), title="iteration", grid=False),
            "y": _number("y", (low, high)),
            "color": {"field": "level", "type": "ordinal", "sort": None, "scale": {"scheme": "viridis"}},
        },
    }


def _kept(test: RangeTestResult) -> Spec:
    """What each level keeps, with the interval over seeds, and q_min."""
    rows, diverged = [], []
    for row in test.evidence:
        level = {"x": row.bits or 0, "outcome": OUTCOMES["domain"][not row.works]}
        if row.diverged:
            diverged.append({**level, "y": WORST})
            continue
        bounds = row.interval if not math.isnan(row.interval[0]) else (row.kept, row.kept)
        y, low, high = (max(WORST, min(BEST, value)) for value in (row.kept, *bounds))
        rows.append({**level, "y": y, "low": low, "high": high})
    levels = [row.bits or 0 for row in test.evidence] or [0, 1]
    chosen = [] if test.q_min is None else [{"x": test.q_min}]
    outcome = {"field": "outcome", "type": "nominal"}
    stroke = {"stroke": {**outcome, "scale": OUTCOMES}}
    shape = {"shape": {**outcome, "scale": {**OUTCOMES, "range": ["circle", "cross"]}}}
    top, across = {"y": {"value": 0}}, {"x": {"value": 0}, "x2": {"value": "width"}}
    layers: list[tuple[list[Spec], Spec, Spec]] = [
        (chosen, {"type": "bar", "size": 24, "opacity": 0.13}, {**top, "y2": {"value": HEIGHT}}),
        (chosen, {"type": "text", "text": "q_min", "dy": 12, "fontWeight": "bold"}, top),
        ([{"y": test.share}], {"type": "rule", "strokeDash": [2, 3]}, across),
        (rows, {"type": "rule"}, {"y": {"field": "low"}, "y2": {"field": "high"}, **stroke}),
        (rows, {"type": "point", "size": 100}, {**stroke, **shape}),
        (diverged, {"type": "text", "text": "diverges"}, {}),
    ]
    return {
        "title": "Share of full precision's progress",
        "encoding": {
            "x": _number("x", (min(levels) - 0.5, max(levels) + 0.5), title="bits", values=levels, grid=False),
            "y": _number("y", (-0.35, 1.3), values=[0, 0.25, 0.5, 0.75, 1], format="%"),
        },
        "layer": [{"data": {"values": data}, "mark": mark, "encoding": own} for data, mark, own in layers],
    }


def _number(field: str, domain: tuple[float, float], **axis: Any) -> Spec:
    """Return a channel for numbers, on a scale from one end of the domain to the other."""
    scale = {"domain": list(domain), "nice": False, "zero": False}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": {"title": None, "tickCount": 5, **axis}}
