"""Drawings as SVG and PNG files. The PNG is made from the very SVG, with fonts that the converter brings along."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from bitcycle._support.charts.drawing import Drawing, Key, text
from bitcycle._support.charts.markup import Markup, clean, join, tag
from bitcycle._support.charts.placing import shortened, text_width
from bitcycle._support.extras import need

WIDTH = 960.0
"""Width of a figure, in pixels of the drawing."""
PNG_SCALE = 2
FONT = 'font-family: "Liberation Sans", Arial, Helvetica, sans-serif'
GAP, MARGIN, HEAD, KEY_LINE = 40.0, 12.0, 24.0, 20.0


def style() -> str:
    """Return the style sheet of all charts."""
    return (files("bitcycle._support.charts") / "chart.css").read_text(encoding="utf-8")


@cache
def _plain_style() -> str:
    """The style sheet without variables, which converters of SVG do not know: the colours of a light page."""
    sheet = style()
    colours = dict(re.findall(r"--([\w-]+): (#\w+);", sheet))
    plain = re.sub(r"var\(--([\w-]+)\)", lambda variable: colours[variable[1]], sheet)
    return re.sub(r":root \{.*?\}\n", "", plain, flags=re.DOTALL) + f"text {{ {FONT}; }}\n"


def svg(drawing: Drawing) -> str:
    """Return a drawing with its key as an SVG file.

    >>> svg(Drawing(10, 10, "nothing", "at all", Markup("")))[:52]
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-12'
    """
    key, key_height = _key(drawing)
    width, height = drawing.width + 2 * MARGIN, drawing.height + key_height + 2 * MARGIN
    # Larger than the view, whose sides are rounded to pixels.
    ground = tag("rect", x=-2 * MARGIN, y=-2 * MARGIN, width=2 * width, height=2 * height, class_="ground")
    view = f"{-MARGIN:g} {-MARGIN:g} {width:g} {height:g}"
    scale = WIDTH / width  # every figure has the same width
    return str(
        tag(
            "svg",
            *(tag("title", f"{drawing.title}: {drawing.description}"), tag("style", Markup(_plain_style()))),
            *(ground, drawing.content, key),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=view,
            width=f"{WIDTH:g}",
            height=f"{round(height * scale)}",
        )
    )


def png(image: str) -> bytes:
    """Return an SVG file as PNG (extra ``study``)."""
    converter = need("vl_convert", "study", "drawing")
    return bytes(converter.svg_to_png(image, scale=PNG_SCALE))


def checked(path: Path) -> Path:
    """Return the path of a figure, or raise a ValueError if it has another suffix than .png or .svg."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"a figure is a .png or .svg file, not {path.name!r}")
    return path


def save(drawing: Drawing, path: Path) -> None:
    """Write a drawing to a .png or .svg file."""
    image = svg(drawing)
    checked(path).write_bytes(png(image) if path.suffix.lower() == ".png" else image.encode("utf-8", "replace"))


def grid(title: str, panels: Sequence[Drawing], columns: int, key: Key = ()) -> Drawing:
    """Arrange panels in rows, each under its title."""
    gap = GAP / columns * 2
    width = (WIDTH - gap * (columns - 1)) / columns
    scale = width / max(panel.width for panel in panels)
    parts, top = [text(title, 0, 16, "title", "start")], HEAD + 8
    letters, note_letters = int(width / 7), int(width / 5.6)
    for i in range(0, len(panels), columns):
        row = panels[i : i + columns]
        head = HEAD + (16 if any(panel.note for panel in row) else 0)
        for column, panel in enumerate(row):
            left = column * (width + gap)
            parts.append(text(shortened(panel.title, letters), left, top + 14, "label", "start"))
            parts.append(text(shortened(panel.note, note_letters), left, top + 30, "hint", "start"))
            size = {"width": panel.width * scale, "height": panel.height * scale}
            view = f"0 0 {panel.width:g} {panel.height:g}"
            parts.append(tag("svg", panel.content, x=left, y=top + head, viewBox=view, **size))
        top += head + scale * max(panel.height for panel in row) + 12
    return Drawing(WIDTH, top, clean(title), f"{len(panels)} panels", join(parts), key=key)


def _key(drawing: Drawing) -> tuple[Markup, float]:
    """The key underneath a drawing, in as many lines as it needs, and its height."""
    parts, left, top = [], 0.0, drawing.height + 12
    for sample, meaning in drawing.key:
        width = 38 + 0.75 * text_width(meaning, 12) + 18
        if left and left + width > drawing.width:
            left, top = 0.0, top + KEY_LINE
        parts.append(tag("svg", sample, x=left, y=top, width=30, height=16, viewBox="0 0 30 16"))
        parts.append(text(meaning, left + 38, top + 12, "hint", "start"))
        left += width
    return join(parts), top + KEY_LINE - drawing.height if parts else 0.0
