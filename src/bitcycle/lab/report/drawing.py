"""Drawn figures on the pages of a report, and what only its figures have: shades, dashes, panels in one file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from markupsafe import Markup

from bitcycle.lab.report.figures import COLOURS, FONT, FONT_SIZE, TIP, Row, Spec, at, clean, exact, layer

SHADES = {
    f"shade-{i}": colour
    for i, colour in enumerate(
        ("#e56a5d", "#d5536f", "#c33d80", "#ad2793", "#9410a2", "#7701a8", "#5801a4", "#370499", "#0d0887")
    )
}
"""Plasma, from short to long, as far as it stands out from the page."""
TINTS = {**COLOURS, **SHADES}
"""All colours of a page by their names; in the dark, a page has others of the same names."""
DASHES: tuple[list[int], ...] = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [12, 4], [5, 2, 1, 2, 1, 2])


class MarkShape(StrEnum):
    """The shape of a mark; kinds differ by shape and by colour, never by colour alone."""

    CIRCLE = "circle"
    SQUARE = "square"
    DIAMOND = "diamond"
    TRIANGLE = "triangle-up"
    CROSS = "cross"
    FLAG = "triangle-down"


def inline(image: str, label: str, class_: str = "") -> Markup:
    """Return a drawn figure as an element of a page, with colours that the page may change.

    Marks that have a ``description`` carry it as ``aria-label``; the first line is what they belong to.
    """
    names = {colour: f"var(--{name})" for name, colour in TINTS.items()}
    named = re.sub(r'(?<=(?:fill|roke)=")#\w{6}(?=")', lambda hex: names.get(hex[0], hex[0]), image)
    element = Markup('<svg viewBox="0 0 {} {}" class="plot {}" role="group" aria-label="{}">')
    return element.format(*_size(image), class_, clean(label)) + Markup(named.split(">", 1)[1])


def composed(
    images: Sequence[str],
    titles: Sequence[str] = (),
    heading: str = "",
    notes: Sequence[str] = (),
    legend: Mapping[str, str] | None = None,
) -> str:
    """Return drawn figures as one, two in a row: with titles, below a heading and a legend of colours, above notes."""
    line, gap = 1.5 * FONT_SIZE, 40
    wide = max(float(_size(image)[0]) for image in images)
    width, y = wide + (wide + gap if len(images) > 1 else 0), line
    parts = [_text(heading, 0, y, weight="bold")] if heading else []
    x = 0.0
    for name, colour in (legend or {}).items():
        y, x = (y + line, 0.0) if x == 0 else (y, x)
        parts += [Markup('<path d="M{} {}h20" stroke="{}" stroke-width="2"/>').format(x, y - 4, colour)]
        parts += [_text(name, x + 26, y)]
        x += 0.65 * FONT_SIZE * len(name) + 50
    y += 1.5 * line if heading else 0
    for i in range(0, len(images), 2):
        for x, image, title in zip((0.0, wide + gap), images[i : i + 2], [*titles[i : i + 2], "", ""], strict=False):
            parts += [_text(title, x, y, weight="bold")] if title else []
            place = f'<svg overflow="visible" x="{x:g}" y="{y + (line / 2 if title else 0):g}" '
            parts.append(Markup(image.replace("<svg ", place, 1)))
        y += max(float(_size(image)[1]) for image in images[i : i + 2]) + gap
    parts += [_text(note, 0, y - gap + i * line, colour=COLOURS["quiet"]) for i, note in enumerate(notes, start=1)]
    height = y - gap + line * (len(notes) + 1)
    begin = '<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="-10 0 {0} {1}">'
    paper = '<rect x="-10" width="{0}" height="{1}" fill="{2}"/>'
    frame = Markup(begin + paper).format(f"{width + 20:g}", f"{height:g}", COLOURS["paper"])
    return str(frame + Markup("").join(parts) + Markup("</svg>"))


def _size(image: str) -> tuple[str, str]:
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', image)
    assert found is not None  # the renderer writes it
    return found[1], found[2]


def _text(text: str, x: float, y: float, weight: str = "normal", colour: str = COLOURS["ink"]) -> Markup:
    element = '<text x="{:g}" y="{:g}" font-family="{}" font-size="{}" font-weight="{}" fill="{}">{}</text>'
    return Markup(element).format(x, y, FONT, FONT_SIZE, weight, colour, clean(text))


def named_columns(rows: Sequence[Row], height: float, domain: tuple[float, float]) -> Spec:
    """Return the names of marks, upright in the column of their mark: above its bar, or below it where there is room.

    No two names can overlap, whatever the font, if the columns are ``NAME_GAP`` apart. Rows have ``x``, ``low``,
    ``high``, ``name`` and ``tip``.
    """
    placed = []
    for row in rows:
        above = (domain[1] - row["high"]) / (domain[1] - domain[0]) * height >= 0.65 * FONT_SIZE * len(row["name"]) + 9
        side = {"place": row["high"], "side": "left"} if above else {"place": row["low"], "side": "right"}
        placed.append({**row, **side})
    names = {"y": at("place"), "text": exact("name")}
    upright = {"angle": 270, "baseline": "middle", "fontWeight": "bold"}
    ground = {"color": COLOURS["paper"], "stroke": COLOURS["paper"], "strokeWidth": 3, "aria": False}  # hides lines
    return {
        "layer": [
            layer("text", some, {**names, **channels}, align=side, dx=dx, **upright, **style)
            for channels, style in (({}, ground), (TIP, {}))
            for side, dx in (("left", 9), ("right", -9))
            if (some := [row for row in placed if row["side"] == side])
        ]
    }


def span(numbers: Iterable[float], margin: float = 0.06) -> tuple[float, float]:
    """Return the range of the finite numbers with a margin around it; it is never empty.

    >>> span([1.0, 3.0], margin=0.5), span([2.0])
    ((0.0, 4.0), (1.8, 2.2))
    """
    finite = [number for number in numbers if math.isfinite(number)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    room = (high - low) * margin
    if room <= 1e-9 * max(abs(low), abs(high)):
        room = 0.1 * abs(low) or 1.0
    return low - room, high + room
