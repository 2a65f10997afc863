"""The templates of the page: Jinja2 escapes every value, so that no name can become part of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bitcycle._support.figures import COLOURS, clean

TEMPLATES = Path(__file__).parent / "templates"


def _shown(value: Any) -> Any:
    return value if isinstance(value, Markup) else clean(str(value))


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_shown,
)


def render(template: str, **values: Any) -> Markup:
    """Return a template with its values, as markup."""
    return Markup(_ENVIRONMENT.get_template(template).render(values))


def style() -> str:
    """Return the style sheet of a page: the colours of figures, and everything else."""
    light = " ".join(f"--{name}: {colour};" for name, colour in COLOURS.items())
    tints = " ".join(f".tint-{name} {{ color: var(--{name}); }}" for name in COLOURS)
    return f":root {{ {light} }}\n{tints}\n{(TEMPLATES / 'page.css').read_text('utf-8')}"


def script() -> str:
    """Return the script of a page."""
    return (TEMPLATES / "page.js").read_text("utf-8")
