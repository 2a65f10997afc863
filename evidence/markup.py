"""HTML elements for the page; text is escaped unless it is already markup."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

_VOID = {"meta", "link"}  # HTML elements without an end tag


def join(parts: Iterable[str]) -> Markup:
    """Concatenate parts, each escaped unless it is markup."""
    return Markup("").join(parts)


def tag(name: str, /, *children: str, **attributes: str | None) -> Markup:
    """Return an element. Underscores in attribute names become hyphens; a trailing one avoids Python's keywords.

    >>> str(tag("p", "1 < 2", class_="note"))
    '<p class="note">1 &lt; 2</p>'
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    written = "".join(f' {key}="{escape(value)}"' for key, value in given.items())
    end = "" if name in _VOID else join(children) + Markup(f"</{name}>")
    return Markup(f"<{name}{written}>") + end
