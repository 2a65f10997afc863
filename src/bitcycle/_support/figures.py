"""Figures described in Vega-Lite and drawn by vl-convert: one description gives the page, the SVG and the PNG file.

Text is only ever data: Vega-Lite escapes it. Colours are those of a light page; :func:`inline` names them, so that a
page can have others in the dark.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from markupsafe import Markup

from bitcycle._support.extras import need

Spec = dict[str, Any]
"""A description in Vega-Lite, or a part of one."""
Row = dict[str, Any]
"""A row of data."""
PNG_SCALE = 2
SHADES = {
    f"shade-{i}": colour
    for i, colour in enumerate(
        ("#e56a5d", "#d5536f", "#c33d80", "#ad2793", "#9410a2", "#7701a8", "#5801a4", "#370499", "#0d0887")
    )
}
"""Plasma, from short to long, as far as it stands out from the page."""
# Okabe and Ito's colours, which colour-blind readers tell apart.
COLOURS = {
    "paper": "#ffffff",
    "soft": "#f5f5f2",
    "ink": "#1c1e21",
    "quiet": "#5b6066",
    "rule": "#dedfdb",
    "large": "#0072b2",
    "medium": "#d55e00",
    "small": "#cc79a7",
    "static": "#009e73",
    "full": "#555555",
    "other": "#7a6a00",
    **SHADES,
}
DASHES: tuple[list[int], ...] = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [12, 4], [5, 2, 1, 2, 1, 2])
FONT, FONT_SIZE = "Liberation Sans, Arial, sans-serif", 12
"""vl-convert brings the first font along."""
NAME_GAP = 15
"""A line of text is never higher than this, in any font."""
_TEXT = {"labelColor": COLOURS["quiet"], "titleColor": COLOURS["ink"], "labelFontSize": FONT_SIZE}
CONFIG: Spec = {
    "font": FONT,
    "view": {"stroke": None},
    "axis": {**_TEXT, "aria": False, "gridColor": COLOURS["rule"], "titleFontSize": 13, "titlePadding": 10},
    "axisX": {"grid": False, "domainColor": COLOURS["quiet"], "tickColor": COLOURS["quiet"], "titleAnchor": "end"},
    "axisY": {"domain": False, "ticks": False, "labelPadding": 8},
    "legend": {
        **_TEXT,
        "aria": False,
        "orient": "top",
        "title": None,
        "labelLimit": 300,
        "symbolSize": 90,
        "symbolStrokeWidth": 2,
    },
    "header": {"labelAnchor": "start", "labelAlign": "left", "labelFontSize": FONT_SIZE, "labelColor": COLOURS["ink"]},
    "title": {
        "anchor": "start",
        "frame": "group",
        "fontSize": 13,
        "color": COLOURS["ink"],
        "offset": 12,
        "subtitleColor": COLOURS["quiet"],
        "subtitleFontSize": FONT_SIZE,
        "subtitlePadding": 6,
    },
    "line": {"strokeWidth": 2, "strokeJoin": "round"},
    "rule": {"strokeWidth": 1.6},
    "point": {"size": 100, "strokeWidth": 1.6, "opacity": 1},
    "text": {"fontSize": FONT_SIZE, "color": COLOURS["ink"]},
}
# Characters that XML forbids, and characters that reverse the direction of the text around them.
_HARMFUL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


class MarkShape(StrEnum):
    """The shape of a mark; kinds differ by shape and by colour, never by colour alone."""

    CIRCLE = "circle"
    SQUARE = "square"
    DIAMOND = "diamond"
    TRIANGLE = "triangle-up"
    CROSS = "cross"
    FLAG = "triangle-down"


def clean(text: str) -> str:
    """Replace characters that no page can show.

    >>> clean("a\\x00b")
    'a\ufffdb'
    """
    return _HARMFUL.sub("\ufffd", text)


def svg(spec: Spec) -> str:
    """Draw a figure as SVG (extra ``study``).

    Raises:
        ValueError: If a number of the description is not finite.
    """
    text = json.dumps(_cleaned({**spec, "background": COLOURS["paper"]}), allow_nan=False)
    drawn = need("vl_convert", "study", "drawing").vegalite_to_svg(text, config=CONFIG)
    # The renderer counts clip paths over all figures: name them by the figure instead, the same every time.
    own = hashlib.sha256(text.encode()).hexdigest()[:12]
    names = {name: f"clip-{own}-{i}" for i, name in enumerate(dict.fromkeys(re.findall(r'(?<= id=")clip\d+', drawn)))}
    return re.sub(r'(?<=[#"])clip\d+(?=[)"])', lambda found: names.get(found[0], found[0]), drawn)


def _cleaned(value: Any) -> Any:
    """Clean all texts; the renderer would end the process at a character that XML forbids."""
    if isinstance(value, dict):
        return {key: _cleaned(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(each) for each in value]
    return clean(value) if isinstance(value, str) else value


def png(image: str) -> bytes:
    """Return an SVG file as PNG (extra ``study``)."""
    return bytes(need("vl_convert", "study", "drawing").svg_to_png(image, scale=PNG_SCALE))


def check_suffix(path: Path) -> None:
    """Raise a ValueError if the path of a figure has another suffix than .png or .svg."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"a figure is a .png or .svg file, not {path.name!r}")


def save(spec: Spec, path: Path) -> None:
    """Write a figure to a .png or .svg file."""
    check_suffix(path)
    image = svg(spec)
    path.write_bytes(png(image) if path.suffix.lower() == ".png" else image.encode())


def inline(image: str, label: str, class_: str = "") -> Markup:
    """Return a drawn figure as an element of a page, with colours that the page may change.

    Marks that have a ``description`` carry it as ``aria-label``; the first line is what they belong to.
    """
    names = {colour: f"var(--{name})" for name, colour in COLOURS.items()}
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


def layer(mark: str, rows: Iterable[Row] | None = None, encoding: Spec | None = None, **style: Any) -> Spec:
    """Return a layer: marks for rows, or for the rows of the figure.

    >>> layer("rule", [{"x": 1}], strokeWidth=2)["mark"]
    {'type': 'rule', 'strokeWidth': 2}
    """
    data = {} if rows is None else {"data": {"values": list(rows)}}
    return {**data, "mark": {"type": mark, **style}, "encoding": encoding or {}}


def number(field: str, domain: tuple[float, float] | None = None, logarithmic: bool = False, **axis: Any) -> Spec:
    """Return a channel for numbers, on a scale from one end of the domain to the other if one is given."""
    scale: Spec = {"nice": False, "zero": False, "type": "log" if logarithmic else "linear"}
    if domain is not None:
        scale["domain"] = list(domain)
        if logarithmic:
            low, high = (math.log10(end) for end in domain)
            powers = [factor * 10.0**power for power in range(math.floor(low), math.ceil(high)) for factor in (1, 3)]
            axis = {"values": [number for number in powers if domain[0] <= number <= domain[1]], **axis}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": {"title": None, "tickCount": 5, **axis}}


def at(field: str) -> Spec:
    """Return a channel for numbers on the scale and axis that the whole figure has.

    >>> at("low")
    {'field': 'low', 'type': 'quantitative', 'title': None}
    """
    return {"field": field, "type": "quantitative", "title": None}


def exact(field: str) -> Spec:
    """Return a channel that takes the value of a field as it is: a colour, a dash pattern, a text."""
    return {"field": field, "type": "nominal", "scale": None}


def kinds(field: str, titles: Sequence[str], values: Sequence[Any]) -> Spec:
    """Return a channel that shows what a mark belongs to, with a legend."""
    return {"field": field, "type": "nominal", "scale": {"domain": list(titles), "range": list(values)}}


TIP: Spec = {"description": exact("tip")}
"""The channel of tooltips and selection: a text of several lines that begins with a name."""


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


def end_names(ends: Sequence[Row], height: float, domain: tuple[float, float]) -> list[Spec]:
    """Return the names of lines to the right of their ends, moved apart; none where there is no room for all.

    Rows have ``y``, ``name`` and ``tip``.
    """
    low, high = domain
    if len(ends) * NAME_GAP > height:
        return []
    places = spread([min(high, max(low, end["y"])) for end in ends], NAME_GAP * (high - low) / height, low, high)
    rows = [{**end, "place": place, "name": shortened(end["name"])} for end, place in zip(ends, places, strict=True)]
    encoding = {"x": {"value": "width"}, "y": at("place"), "text": exact("name"), **TIP}
    return [layer("text", rows, encoding, dx=8, align="left", baseline="middle", fontWeight="bold")]


def shortened(text: str, limit: int = 22) -> str:
    """Shorten a name to the length that a figure has room for.

    >>> shortened("delay(0.25, CR:3-8:cycles=8)")
    'delay(0.25, CR:3-8:cy…'
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


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


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move positions apart until neighbours keep a gap, with the least squared displacement.

    Neighbours that are too close form a block, which is centred where its members want to be on average. The result is
    shifted into the range from ``low`` to ``high``; the gap is smaller where it is too long for it.

    >>> spread([10, 11, 50], 4, low=0, high=100)
    [8.5, 12.5, 50.0]
    """
    if len(wanted) > 1:
        gap = min(gap, (high - low) / (len(wanted) - 1))
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[tuple[float, int]] = []  # sum of the members' wanted positions less their offsets, and their number
    for rank, i in enumerate(order):
        blocks.append((wanted[i] - rank * gap, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [(a + b, n + m)]
    starts = [total / members for total, members in blocks for _ in range(members)]
    positions = [0.0] * len(wanted)
    for rank, (i, start) in enumerate(zip(order, starts, strict=True)):
        positions[i] = max(low, min(start, high - (len(order) - 1) * gap)) + rank * gap
    return positions
