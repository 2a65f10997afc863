"""HTML and SVG elements. Text is escaped unless it is already markup, so that no name can become part of a page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

# Characters that XML forbids, and characters that reverse the direction of the text around them.
_HARMFUL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")

_VOID = {"meta", "link"}  # HTML elements without an end tag
_SHAPES = {"path", "line", "rect", "circle"}  # SVG elements without content

Value = str | int | float | bool | None


class Markup(str):
    """Text that is already markup.

    >>> type(Markup("<b>") + Markup("</b>")).__name__
    'Markup'
    """

    __slots__ = ()

    def __add__(self, other: str) -> Markup:
        return Markup(str(self) + escape(other))


def clean(text: str) -> str:
    """Replace characters that no page can show.

    >>> clean("a\\x00b")
    'a\ufffdb'
    """
    return _HARMFUL.sub("\ufffd", text)


def escape(text: str) -> Markup:
    """Return text as markup that shows it literally; markup is returned unchanged.

    >>> escape("<script>"), escape(Markup("<b>"))
    ('&lt;script&gt;', '<b>')
    """
    return text if isinstance(text, Markup) else Markup(html.escape(clean(text)))


def join(parts: Iterable[str]) -> Markup:
    """Concatenate parts, each escaped unless it is markup."""
    return Markup("".join(escape(part) for part in parts))


def tag(name: str, /, *children: str, **attributes: Value) -> Markup:
    """Return an element. Underscores in attribute names become hyphens; a trailing one avoids Python's keywords.

    >>> tag("p", "1 < 2", class_="note", data_x=1.50)
    '<p class="note" data-x="1.5">1 &lt; 2</p>'
    >>> tag("path", d="M0 0")
    '<path d="M0 0"/>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    if name in _SHAPES and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def _attribute(key: str, value: Value) -> str:
    if value is False:
        return ""
    text = "" if value is True else coordinate(value) if isinstance(value, float) else str(value)
    return f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"'


def coordinate(value: float) -> str:
    """Format a number to a hundredth of a pixel.

    >>> coordinate(1.5), coordinate(2.0), coordinate(0.333333)
    ('1.5', '2', '0.33')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")
