"""An interval on a line with its zero: small enough for a row of a table."""

from __future__ import annotations

import math

from bitcycle._study.report.markup import Markup, tag
from bitcycle._study.report.scale import Scale
from bitcycle._study.report.svg import line

WIDTH, HEIGHT = 120.0, 18.0


def interval_plot(mean: float, low: float, high: float, reach: float) -> Markup:
    """A mean and its interval on a scale from minus to plus ``reach``; the numbers stand beside it in words.

    >>> interval_plot(0.1, 0.0, 0.2, reach=1.0).count("<line")
    3
    """
    if not math.isfinite(mean) or reach <= 0:
        return Markup("")
    scale = Scale(-reach, reach, 4, WIDTH - 4)
    middle = HEIGHT / 2
    parts = [line(scale.start, middle, scale.end, middle, "grid"), line(scale(0), 1, scale(0), HEIGHT - 1, "axis")]
    if math.isfinite(low) and math.isfinite(high):
        parts.append(line(scale(max(low, -reach)), middle, scale(min(high, reach)), middle, "bar"))
    parts.append(tag("circle", cx=scale(min(reach, max(-reach, mean))), cy=middle, r=3.5, class_="mark"))
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}", class_="interval", aria_hidden="true")
