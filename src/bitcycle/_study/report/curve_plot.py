"""Courses over training: the lines of a few settings, all others grey behind them, and their bits underneath."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.report import words
from bitcycle._study.report.bits import limits, stretches
from bitcycle._study.report.curve_data import Line
from bitcycle._study.report.facts import key_of, places_of, saving_words
from bitcycle._study.report.look import kind_of
from bitcycle._study.report.markup import Markup, coordinate, join, tag
from bitcycle._study.report.placing import spread, text_width
from bitcycle._study.report.scale import Scale, tick_texts
from bitcycle._study.report.svg import Frame, drawing, line, path, text, x_axis, y_axis

WIDTH, HEIGHT = 460.0, 220.0
TOP, LEFT, FONT, STRIP = 14.0, 52.0, 12.5, 13.0
DASHES = 6  # the style sheet has so many patterns of lines


@dataclass(frozen=True)
class Axes:
    """What all panels of a question share."""

    steps: int
    low: float
    high: float
    logarithmic: bool = False


def course_plot(
    analysis: Analysis, title: str, what: str, lines: Sequence[Line], behind: Sequence[Line], axes: Axes, bits: bool
) -> Markup:
    """A panel: lines with their names at the end, grey lines behind, strips of bits underneath if wanted.

    Where there is no room for all names there is none: pointing at a line tells its name.
    """
    names = [words.shortened(course.setting.label) for course in lines]
    named = bits and len(lines) * FONT <= HEIGHT - TOP
    room = max((text_width(name, FONT) for name in names), default=0.0) + 14 if bits else 24
    strips = [course.setting for course in lines if stretches(course.setting)] if bits else []
    y = Scale(axes.low, axes.high, HEIGHT, TOP, axes.logarithmic)
    frame = Frame(Scale(0, axes.steps, LEFT, WIDTH - room), y)
    strips_top = HEIGHT + 46
    return drawing(
        WIDTH,
        strips_top + STRIP * len(strips) if strips else HEIGHT + 40,
        title,
        f"{what} over {axes.steps:,} steps of training, for {words.listed(names)}",
        y_axis(frame, 4),
        _lines(analysis, what, lines, behind, frame),
        _ends(analysis, lines, names, frame) if named else "",
        _steps(frame),
        join(_strip(analysis, s, frame, strips_top + STRIP * i) for i, s in enumerate(strips)),
        text("bits", LEFT - 8, strips_top + 9, "tick", "end") if strips else "",
        class_="plot",
        role="img",
    )


def _lines(analysis: Analysis, what: str, lines: Sequence[Line], behind: Sequence[Line], frame: Frame) -> Markup:
    """Inside a drawing of their own, which cuts off what lies outside of it."""
    box = frame.box
    parts = [path(_pixels(course, frame), "behind") for course in behind]
    for i, course in enumerate(lines):
        places = _pixels(course, frame)
        parts.append(
            tag(
                "g",
                path(places, "hit"),
                path(places, f"stroke dash-{i % DASHES}"),
                class_=f"course kind-{kind_of(course.setting).name}",
                data_setting=key_of(analysis, course.setting),
                data_tip=_tip(analysis, course, what),
            )
        )
    width, height = box.right - box.left, box.bottom - box.top
    view = " ".join(coordinate(value) for value in (box.left, box.top, width, height))
    return tag("svg", *parts, x=box.left, y=box.top, width=width, height=height, viewBox=view)


def _pixels(course: Line, frame: Frame) -> list[tuple[float, float]]:
    return [(frame.x(step), frame.y(value)) for step, value in course.points]


def _tip(analysis: Analysis, course: Line, what: str) -> str:
    step, value = course.points[-1]
    places = max(places_of(analysis), words.decimals([value]))
    lines = [course.setting.label, f"{what} {words.fixed(value, min(places, 6))} at step {step:,.0f}"]
    if saving_words(course.setting).endswith("%"):
        lines.append(f"saving {saving_words(course.setting)}")
    return "\n".join(lines)


def _ends(analysis: Analysis, lines: Sequence[Line], names: Sequence[str], frame: Frame) -> Markup:
    """The names at the ends of the lines, moved apart."""
    box = frame.box
    wanted = [min(box.bottom, max(box.top, frame.y(course.points[-1][1]))) + 4 for course in lines]
    places = spread(wanted, FONT, box.top + 4, box.bottom + 4)
    parts = []
    for course, name, near, place in zip(lines, names, wanted, places, strict=True):
        parts.append(
            tag(
                "g",
                line(box.right + 1, near - 4, box.right + 7, place - 4, "leader"),
                text(name, box.right + 9, place, "label", "start"),
                class_=f"kind-{kind_of(course.setting).name}",
                data_setting=key_of(analysis, course.setting),
            )
        )
    return join(parts)


def _steps(frame: Frame) -> Markup:
    numbers = frame.x.ticks(4)
    first, *others = tick_texts(numbers)
    return x_axis(frame, numbers, [f"step {first}", *others])


def _strip(analysis: Analysis, setting: Setting, frame: Frame, top: float) -> Markup:
    """The bits of a schedule as a strip: the more bits, the stronger its colour."""
    box = frame.box
    low, high = limits(analysis.settings)
    parts = [tag("rect", x=box.left, y=top, width=box.right - box.left, height=STRIP - 3, class_="strip-ground")]
    for start, end, bits in stretches(setting):
        x = frame.x(start * frame.x.high)
        width = frame.x(end * frame.x.high) - x
        shade = strength(bits, low, high)
        parts.append(
            tag("rect", x=x, y=top, width=width, height=STRIP - 3, class_="strip", fill_opacity=shade),
        )
    parts.append(text(words.shortened(setting.label), box.right + 9, top + 9, "tick", "start"))
    return tag("g", *parts, class_=f"kind-{kind_of(setting).name}", data_setting=key_of(analysis, setting))


def strength(bits: int, low: int, high: int) -> float:
    """How strong the colour of a strip is at so many bits.

    >>> strength(3, 3, 8), strength(8, 3, 8), strength(32, 3, 8)
    (0.1, 1.0, 1.0)
    """
    if high == low:
        return 1.0
    return min(1.0, 0.1 + 0.9 * (bits - low) / (high - low))
