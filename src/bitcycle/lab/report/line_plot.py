"""Lines over training: a few in colour, all others grey behind them, and the bits of each underneath."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bitcycle._support.charts.drawing import (
    DASHES,
    LABEL_HEIGHT,
    Drawing,
    Frame,
    MarkShape,
    end_labels,
    mark,
    path,
    text,
)
from bitcycle._support.charts.markup import Markup, join, tag
from bitcycle._support.charts.placing import shortened, text_width
from bitcycle._support.charts.scale import Scale, span
from bitcycle.lab import format as fmt
from bitcycle.lab.report.curves import Points
from bitcycle.lab.report.glossary import DIAGNOSTICS, Explanation
from bitcycle.schedules.plot import BitScale, Stretch

WIDTH, HEIGHT, TOP, LEFT, STRIP = 460.0, 220.0, 14.0, 56.0, 13.0
LOGARITHMIC = 10  # values that span more than this factor are drawn on a logarithmic scale


@dataclass(frozen=True)
class Line:
    """A line of a plot."""

    key: str
    """Its identifier within its part of the page."""
    label: str
    class_: str
    """The class of its colour."""
    points: Points
    dash: int = 0
    tip: str = ""
    """A further line of its tooltip."""
    dot: int = 0
    """The step after which the first point is marked; 0 for none."""
    bits: Sequence[Stretch] = ()


def value_scale(values: Sequence[float], threshold: float | None = None) -> Scale:
    """Return a scale that holds all values and the threshold, logarithmic if they span decades."""
    values = [*values, *([] if threshold is None else [threshold])]
    if min(values) > 0 and max(values) > LOGARITHMIC * min(values):
        return Scale(min(values) / 1.3, max(values) * 1.3, HEIGHT, TOP, logarithmic=True)
    return Scale(*span(values), HEIGHT, TOP)


def settled_scale(lines: Sequence[Line]) -> Scale:
    """Return a linear scale for the values after the first third, or for all if the start is not far off.

    A perplexity starts at some hundreds and ends near eighty: drawn in full, all curves would coincide.
    """
    points = [point for each in lines for point in each.points]
    last = max((step for step, _ in points), default=1.0)
    low, high = span(value for _, value in points)
    settled_low, settled_high = span(value for step, value in points if step >= last / 3)
    if high - low >= 2.5 * (settled_high - settled_low):
        low, high = settled_low, settled_high
    return Scale(low, high, HEIGHT, TOP)


def line_plot(
    title: str,
    quantity: str,
    lines: Sequence[Line],
    steps: int,
    y: Scale,
    threshold: float | None = None,
    behind: Sequence[Line] = (),
    named: bool = False,
) -> Drawing:
    """Draw lines over training, if ``named`` with their names at the end and their bits as strips underneath.

    Where there is no room for all names there are none; the tooltip of a line has its name.
    """
    names = [shortened(each.label) for each in lines]
    room = max((text_width(name, LABEL_HEIGHT) for name in names), default=0.0) + 14 if named else 24
    frame = Frame(Scale(0, steps, LEFT, WIDTH - room), y)
    box = frame.box
    ends = [
        ((box.right + 1, y(each.points[-1][1])), name, _group(each)) for each, name in zip(lines, names, strict=True)
    ]
    fits = named and len(lines) * LABEL_HEIGHT <= HEIGHT - TOP
    scale = BitScale.of(each.bits for each in [*lines, *behind])
    strips = [each for each in lines if each.bits] if named else []
    top = HEIGHT + 46
    parts = [
        frame.y_axis(4),
        "" if threshold is None else frame.across(threshold, "threshold"),
        frame.clipped(
            *(path(frame.points(each.points), "behind") for each in behind),
            *(_line(each, quantity, frame) for each in lines),
        ),
        end_labels(ends, box.right + 9, box) if fits else "",
        frame.step_axis(),
        *(_strip(each, frame, top + STRIP * i, scale) for i, each in enumerate(strips)),
        text("bits", LEFT - 8, top + 9, "tick", "end") if strips else "",
    ]
    title += ", logarithmic scale" if y.logarithmic else ""
    description = f"{quantity} over {fmt.count(steps, 'training step')}, for {fmt.listed(names)}"
    return Drawing(WIDTH, top + STRIP * len(strips) if strips else HEIGHT + 32, title, description, join(parts))


def diagnostic_plots(
    names: Iterable[str], lines_of: Callable[[str], list[Line]], steps: int
) -> list[tuple[Drawing, str]]:
    """Draw each diagnostic that has a value, and return it with its explanation; those that have one come first."""
    known = list(DIAGNOSTICS)
    plots = []
    for name in sorted(names, key=lambda name: (known.index(name) if name in known else len(known), name)):
        if lines := lines_of(name):
            explanation, title = DIAGNOSTICS.get(name, Explanation()), name.replace("_", " ")
            values = [value for each in lines for _, value in each.points]
            # While two deficits last, their lines coincide: the shortest is drawn last, on top.
            lines.sort(key=lambda each: each.dot or math.inf, reverse=True)
            threshold = explanation.threshold
            drawing = line_plot(title, title, lines, steps, value_scale(values, threshold), threshold)
            plots.append((drawing, explanation.sentence))
    return plots


def _group(each: Line) -> dict[str, str]:
    return {"class_": each.class_, "data_setting": each.key}


def _line(each: Line, quantity: str, frame: Frame) -> Markup:
    """A line with a dot where its deficit ends; a line of few points has a dot for each."""
    points = frame.points(each.points)
    parts = [path(points, "hit"), path(points, f"stroke dash-{each.dash % DASHES}")] if len(points) > 1 else []
    after = [point for (step, _), point in zip(each.points, points, strict=True) if each.dot and step >= each.dot]
    parts += [mark(MarkShape.CIRCLE, x, y, 3.6) for x, y in (points if len(points) < 4 else after[:1])]
    step, value = each.points[-1]
    tip = [each.label, f"{quantity} {fmt.fixed(value, min(6, fmt.decimals([value])))} at step {step:,.0f}", each.tip]
    group = {**_group(each), "class_": f"course {each.class_}"}
    return tag("g", *parts, **group, data_tip="\n".join(part for part in tip if part))


def _strip(each: Line, frame: Frame, top: float, scale: BitScale) -> Markup:
    """The bits of a schedule as a strip: more bits, stronger colour."""
    box = frame.box
    parts = [tag("rect", x=box.left, y=top, width=box.right - box.left, height=STRIP - 3, class_="strip-ground")]
    for start, end, bits in each.bits:
        x, right = frame.x(start * frame.x.high), frame.x(end * frame.x.high)
        shade = strength(bits, scale)
        parts.append(tag("rect", x=x, y=top, width=right - x, height=STRIP - 3, class_="strip", fill_opacity=shade))
    parts.append(text(shortened(each.label), box.right + 9, top + 9, "tick", "start"))
    return tag("g", *parts, **_group(each))


def strength(bits: float, scale: BitScale) -> float:
    """Return the opacity of a strip at a number of bits.

    >>> scale = BitScale(3, 8, full=True)
    >>> strength(3, scale), strength(8, scale), strength(32, scale)
    (0.1, 1.0, 1.0)
    """
    low, high = scale.low, scale.high
    return 1.0 if high == low else min(1.0, 0.1 + 0.9 * (bits - low) / (high - low))
