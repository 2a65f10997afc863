"""HTML and SVG elements. Text is escaped unless it is markup already, so that no name can become part of the page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

# What XML forbids, and what turns the direction of the text around it.
_HARMFUL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")

_VOID = {"meta", "link", "br"}  # HTML elements that have no end
_SHAPES = {"path", "line", "rect", "circle"}  # SVG elements that are closed in themselves

Value = str | int | float | bool | None


class Markup(str):
    """Text that is markup already; joined with other markup it stays what it is.

    >>> type(Markup("<b>") + Markup("</b>")).__name__
    'Markup'
    """

    __slots__ = ()

    def __add__(self, other: str) -> Markup:
        return Markup(str(self) + escape(other))


def clean(text: str) -> str:
    """The text without characters that no page can show.

    >>> clean("a\\x00b")
    'a\ufffdb'
    """
    return _HARMFUL.sub("\ufffd", text)


def escape(text: str) -> Markup:
    """Text as markup that shows it letter by letter; markup stays as it is.

    >>> escape("<script>"), escape(Markup("<b>"))
    ('&lt;script&gt;', '<b>')
    """
    return text if isinstance(text, Markup) else Markup(html.escape(clean(text)))


def join(parts: Iterable[str], between: str = "") -> Markup:
    """Parts one after the other, each escaped unless it is markup."""
    return Markup(escape(between).join(escape(part) for part in parts))


def tag(name: str, /, *children: str, **attributes: Value) -> Markup:
    """An element. Underscores in attributes stand for hyphens; one at the end keeps a name clear of Python's words.

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
    """A number as short as a drawing allows: a hundredth of a pixel cannot be seen.

    >>> coordinate(1.5), coordinate(2.0), coordinate(0.333333)
    ('1.5', '2', '0.33')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")
