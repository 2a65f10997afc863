"""The texts of the page as Jinja2 templates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from bitcycle.lab import format as fmt
from bitcycle.lab.report.rendering import plain

# Markdown is not HTML: templates in Markdown escape values by the filter "plain" where they are not escaped already.
_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters |= {"plain": plain, "amount": fmt.count, "number": fmt.number, "listed": fmt.listed}


def render(template: str, **values: Any) -> str:
    """Return the text of a template."""
    return _ENVIRONMENT.get_template(template).render(values)


def sections(template: str, **values: Any) -> dict[str, str]:
    """Return the sections of a template by their headings, each on one line; without those that have no text.

    >>> list(sections("pilots.md"))
    ['Gaps', 'Power']
    """
    _, *parts = re.split(r"^## (.+)$", render(template, **values), flags=re.MULTILINE)
    found = {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return {name: text for name, text in found.items() if text}
