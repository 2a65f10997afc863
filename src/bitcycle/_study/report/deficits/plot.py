"""Final quality against the length or the position of a deficit, as SVG: a line with error bars for each arm."""

from __future__ import annotations

from bitcycle._study.analysis import DeficitAnalysis
from bitcycle._study.report import words
from bitcycle._study.report.deficits.arms import SHOWN
from bitcycle._study.report.deficits.facts import Experiment, tip_lines
from bitcycle._study.report.deficits.layout import (
    NARROW,
    WIDE,
    ArmLine,
    DeficitLayout,
    Mark,
    deficit_layout,
    name_places,
)
from bitcycle._study.report.facts import better_words
from bitcycle._study.report.markup import Markup, join, tag
from bitcycle._study.report.svg import drawing, line, mark, path, text, x_axis, y_axis


def deficit_plot(analysis: DeficitAnalysis, experiment: Experiment) -> Markup:
    """The plot twice, for wide and for narrow pages; the style sheet shows one of them."""
    layouts = [(deficit_layout(experiment, size), name) for size, name in ((WIDE, "wide"), (NARROW, "narrow"))]
    drawn = [_draw(analysis, experiment, layout, name) for layout, name in layouts if layout]
    return join(drawn) if drawn else tag("p", "All runs diverged: there is no quality to show.", class_="note")


def _draw(analysis: DeficitAnalysis, experiment: Experiment, layout: DeficitLayout, name: str) -> Markup:
    size, frame = layout.size, layout.frame
    box = frame.box
    arrow = "↑" if analysis.higher_is_better else "↓"
    numbers = [number for number, *_ in layout.x_ticks]
    return drawing(
        size.width,
        size.height,
        f"{analysis.metric} against {experiment.axis}",
        f"arms {words.listed(each.arm.title for each in layout.lines)}; the table below has the same figures",
        text(f"{words.shortened(analysis.metric)} on the test part", 0, 18, "title", "start"),
        text(f"{arrow} {better_words(analysis)}", box.right, 18, "hint", "end"),
        y_axis(frame),
        x_axis(frame, numbers, [share for _, share, _ in layout.x_ticks]),
        join(text(steps, frame.x(number), box.bottom + 36, "hint") for number, _, steps in layout.x_ticks),
        text(experiment.axis, box.right, size.height - 8, "title", "end"),
        join(_line(each) for each in layout.lines),
        join(_point(analysis, experiment, each, layout) for arm in layout.lines for each in arm.marks),
        _names(layout) if size.named else "",
        class_=f"plot deficit-plot {name}",
        role="group",
    )


def _line(arm_line: ArmLine) -> Markup:
    arm = arm_line.arm
    through = path(arm_line.places, f"stroke dash-{arm.dash}")
    return tag("g", through, class_=f"kind-{arm.kind.name}", data_setting=arm.key)


def _point(analysis: DeficitAnalysis, experiment: Experiment, each: Mark, layout: DeficitLayout) -> Markup:
    arm = SHOWN[each.point.arm]
    half = layout.size.apart / 2
    parts = [
        tag("rect", x=each.x - half, y=each.top - 9, width=2 * half, height=each.bottom - each.top + 18, class_="hit")
    ]
    if each.top != each.bottom:
        parts.append(line(each.x, each.top, each.x, each.bottom, "bar"))
        parts += [line(each.x - 3.5, end, each.x + 3.5, end, "bar") for end in (each.top, each.bottom)]
    parts.append(mark(arm.kind, each.x, each.y, layout.size.radius))
    lines = tip_lines(analysis, experiment, each.point)
    return tag(
        "g",
        *parts,
        class_=f"point kind-{arm.kind.name}",
        tabindex="0",
        role="button",
        aria_pressed="false",
        aria_label="; ".join(lines),
        data_setting=arm.key,
        data_tip="\n".join(lines),
    )


def _names(layout: DeficitLayout) -> Markup:
    """The names of the arms at the ends of their lines."""
    parts = []
    for each, (x, y) in zip(layout.lines, name_places(layout), strict=True):
        name = text(each.arm.title, x, y + 4, "label", "start")
        end_x, end_y = each.places[-1]
        leader = line(end_x + layout.size.radius + 3, end_y, x - 4, y, "leader")
        parts.append(tag("g", leader, name, class_=f"kind-{each.arm.kind.name}", data_setting=each.arm.key))
    return join(parts)


def deficit_key(experiment: Experiment) -> Markup:
    """What the signs of the plot mean."""
    if not any(words.has_interval(point.quality) for point in experiment.points):
        meaning = "A single seed: there are no error bars, and chance is not told from damage."
        return tag("ul", tag("li", meaning), class_="key")
    kind = SHOWN["held"].kind
    bar = join(
        [line(15, 1, 15, 15, "bar"), line(11, 1, 19, 1, "bar"), line(11, 15, 19, 15, "bar"), mark(kind, 15, 8, 4)]
    )
    sample = tag("svg", bar, viewBox="0 0 30 16", class_=f"sample kind-{kind.name}", aria_hidden="true")
    return tag("ul", tag("li", sample, tag("span", "mean and its 95 % interval")), class_="key")
