"""The curves of the schedules: a small panel each, all on the same scale."""

from __future__ import annotations

from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.report.bits import limits, stretches
from bitcycle._study.report.facts import key_of, saving_words
from bitcycle._study.report.look import kind_of
from bitcycle._study.report.markup import Markup, coordinate, join, tag
from bitcycle._study.report.scale import Scale
from bitcycle._study.report.svg import Frame, drawing, line, text
from bitcycle.schedules.base import FULL_WIDTH

WIDTH, HEIGHT = 200.0, 96.0


def schedule_plots(analysis: Analysis) -> Markup:
    """A panel for each schedule whose bits are known; full precision, at 32, has nothing to show on this scale."""
    settings = [setting for setting in analysis.settings if kind_of(setting).name != "full" and stretches(setting)]
    if not settings:
        return tag("p", "None of the schedules is known here, so that their curves cannot be drawn.", class_="note")
    low, high = limits(settings)
    return tag("div", *(_panel(analysis, setting, low, high) for setting in settings), class_="panels small")


def _panel(analysis: Analysis, setting: Setting, low: int, high: int) -> Markup:
    kind = kind_of(setting)
    key = key_of(analysis, setting)
    name = tag("button", setting.label, type="button", class_="pick", data_setting=key, aria_pressed="false")
    figures = f"{setting.mean_bits:.2f} bits on average"
    if setting.label != analysis.baseline:
        figures += f", saves {saving_words(setting)}" if setting.relative_cost <= 1 else ""
    caption = tag("figcaption", name, tag("span", figures, class_="hint"))
    return tag("figure", caption, _curve(setting, low, high), class_=f"panel kind-{kind.name}", data_setting=key)


def _curve(setting: Setting, low: int, high: int) -> Markup:
    frame = Frame(Scale(0, 1, 22, WIDTH - 4), Scale(0, high, HEIGHT - 20, 6))
    box = frame.box
    known = stretches(setting)
    outline = f"M{coordinate(box.left)} {coordinate(frame.y(_height(known[0][2], high)))}"
    for _, end, bits in known:
        outline += f"V{coordinate(frame.y(_height(bits, high)))}H{coordinate(frame.x(end))}"
    area = f"{outline}V{coordinate(box.bottom)}H{coordinate(box.left)}Z"
    levels = sorted({0, low, high})
    return drawing(
        WIDTH,
        HEIGHT,
        setting.label,
        f"bits over training, {min(bits for *_, bits in known)} to {max(bits for *_, bits in known)}",
        join(line(box.left, frame.y(level), box.right, frame.y(level), "grid") for level in levels),
        join(text(str(level), box.left - 6, frame.y(level) + 4, "tick", "end") for level in levels),
        tag("path", d=area, class_="area"),
        tag("path", d=outline, class_="stroke"),
        text("start", box.left, HEIGHT - 5, "tick", "start"),
        text("end of training", box.right, HEIGHT - 5, "tick", "end"),
        class_="plot",
        role="img",
    )


def _height(bits: int, high: int) -> int:
    """Full precision within a schedule ends at the top of the panel."""
    return high if bits == FULL_WIDTH else bits
