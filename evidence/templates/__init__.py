"""The texts of the page as Jinja2 templates in Markdown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bitcycle.lab.report.tables import plain

# Values and tables escape themselves where the templates say so: Markdown is not HTML.
_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters["plain"] = plain


def render(template: str, **values: Any) -> str:
    """Return the text of a template."""
    return _ENVIRONMENT.get_template(template).render(values)


def sections(template: str, **values: Any) -> dict[str, str]:
    """Return the sections of a template by their headings, each on one line.

    >>> list(sections("pilots.md"))
    ['Gaps', 'Power']
    """
    _, *parts = re.split(r"^## (.+)$", render(template, **values), flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}
