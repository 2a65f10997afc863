"""A range test as a figure: the short trainings, and the share of full precision's progress that each level keeps."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from bitcycle._support import figures
from bitcycle._support.figures import COLOURS, Row, Spec, at, exact, layer, number

if TYPE_CHECKING:
    from bitcycle._range_test import RangeTestResult

WIDTH, HEIGHT = 400, 240
WORST, BEST = -0.25, 1.25  # shares beyond are drawn here
OUTCOMES = ("training works", "training fails")
OUTCOME_COLOURS = (COLOURS["large"], COLOURS["medium"])


def draw_range_test(test: RangeTestResult, path: Path) -> None:
    """Draw the curves of all levels and what they keep, and save the figure as PNG or SVG.

    Raises:
        ValueError: If the path ends in neither ``.png`` nor ``.svg``.
    """
    outcome = "no q_min" if test.q_min is None else f"q_min = {test.q_min} bits"
    title = {"text": f"Precision range test: {outcome}", "subtitle": ["Dotted: the share that a level has to keep."]}
    figures.save({"title": title, "hconcat": [_curves(test), _kept(test)], "spacing": 80}, path)


def _curves(test: RangeTestResult) -> Spec:
    """The median over seeds of each level, on the scale of full precision's own curve."""
    rows = [*test.evidence, test.reference]
    curves = {row.bits: [median(values) for values in zip(*row.curves, strict=False)] for row in rows}
    own = curves[test.reference.bits]
    reach = (max(own) - min(own)) or 1.0
    values = [value for row in rows if not row.diverged for value in curves[row.bits]]
    low = max(min(values, default=0.0), min(own) - reach) - 0.05 * reach
    high = min(max(values, default=1.0), max(own) + reach) + 0.05 * reach
    lines: list[list[Row]] = []
    for row in rows:
        name = "full" if row.bits is None else f"{row.bits} bits"
        colour = COLOURS["full"] if row.bits is None else OUTCOME_COLOURS[not row.works]
        shown = {"name": name, "tip": name, "colour": colour}
        values = np.clip(curves[row.bits], low - reach, high + reach).tolist()
        lines.append([{"x": i, "y": value, **shown} for i, value in enumerate(values) if not math.isnan(value)])
    channels = {"stroke": exact("colour"), "detail": exact("name")}
    domain = (0, max(1, len(own) - 1))
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "title": "Value that the step returns, median over seeds",
        "encoding": {"x": number("x", domain, title="iteration"), "y": number("y", (low, high))},
        "layer": [
            layer("line", [row for line in lines for row in line], channels, clip=True),
            *figures.end_names([line[-1] for line in lines if line], HEIGHT, (low, high)),
        ],
    }


def _kept(test: RangeTestResult) -> Spec:
    rows, diverged = [], []
    for row in test.evidence:
        level = {"x": row.bits or 0, "outcome": OUTCOMES[not row.works]}
        if row.diverged:
            diverged.append({**level, "y": WORST})
            continue
        bounds = row.interval if not math.isnan(row.interval[0]) else (row.kept, row.kept)
        y, low, high = (max(WORST, min(BEST, value)) for value in (row.kept, *bounds))
        rows.append({**level, "y": y, "low": low, "high": high})
    levels = [row.bits or 0 for row in test.evidence] or [0, 1]
    chosen = [] if test.q_min is None else [{"x": test.q_min, "left": test.q_min - 0.2, "right": test.q_min + 0.2}]
    stroke = {"stroke": figures.kinds("outcome", OUTCOMES, OUTCOME_COLOURS)}
    shape = {"shape": figures.kinds("outcome", OUTCOMES, ("circle", "cross"))}
    top, across = {"y": {"value": 0}}, {"x": {"value": 0}, "x2": {"value": "width"}}
    columns = {"x": at("left"), "x2": {"field": "right"}, **top, "y2": {"value": HEIGHT}}
    domain = (min(levels) - 0.5, max(levels) + 0.5)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "title": "Share of full precision's progress",
        "encoding": {
            "x": number("x", domain, title="bits", values=levels, format="d"),
            "y": number("y", (-0.35, 1.3), values=[0, 0.25, 0.5, 0.75, 1]),
        },
        "layer": [
            layer("rect", chosen, columns, color=COLOURS["full"], opacity=0.13),
            layer("text", chosen, top, text="q_min", dy=12, fontWeight="bold"),
            layer("rule", [{"y": test.share}], across, strokeDash=[2, 3], strokeWidth=1),
            layer("rule", rows, {"y": at("low"), "y2": {"field": "high"}, **stroke}),
            layer("point", rows, {**stroke, **shape}),
            layer("text", diverged, text="diverges", color=COLOURS["quiet"]),
        ],
    }
