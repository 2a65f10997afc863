"""Figures described in Vega-Lite and drawn by vl-convert: one description gives the page, the SVG and the PNG file.

Text is only ever data: Vega-Lite escapes it. Colours are those of a light page.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bitcycle._support.extras import need

Spec = dict[str, Any]
"""A description in Vega-Lite, or a part of one."""
Row = dict[str, Any]
"""A row of data."""
PNG_SCALE = 2
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
}
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


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move positions apart until neighbours keep a gap, with the smallest largest displacement.

    That is the mean of moving them only up and only down. The result is shifted into the range from ``low`` to
    ``high``; the gap is smaller where it is too long for it.

    >>> spread([10, 11, 50], 4, low=0, high=100)
    [8.5, 12.5, 50.0]
    """
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    order = np.argsort(wanted, kind="stable")
    offsets = gap * np.arange(len(wanted))
    starts = np.array(wanted, dtype=np.float64)[order] - offsets
    up, down = np.maximum.accumulate(starts), np.minimum.accumulate(starts[::-1])[::-1]
    positions = np.empty(len(wanted))
    positions[order] = np.clip((up + down) / 2, low, high - gap * max(0, len(wanted) - 1)) + offsets
    return [float(position) for position in positions]
