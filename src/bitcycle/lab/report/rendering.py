"""How a report is rendered: templates of pages and sentences, and tables as HTML, as Markdown and as CSV.

Jinja2 escapes every value of a page, so that no name can become part of it. Sentences (``.txt``) are plain text; a page
escapes them when it shows them.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from bitcycle.lab import format as fmt
from bitcycle.lab.report.drawing import TINTS
from bitcycle.lab.report.figures import clean
from bitcycle.lab.report.labels import Kind
from bitcycle.lab.statistics.analysis import Estimate
from bitcycle.lab.studies.exports import csv_cell

TEMPLATES = Path(__file__).parent / "templates"
Row = TypeVar("Row")

# Characters that mean something to Markdown within a line.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#$&])")


def _shown(value: Any) -> Any:
    return value if isinstance(value, Markup) else clean(str(value))


ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_shown,
)
ENVIRONMENT.globals |= {"isfinite": math.isfinite} | {
    each.__name__: each
    for each in (
        fmt.aligned,
        fmt.cost_phrase,
        fmt.count,
        fmt.has_interval,
        fmt.listed,
        fmt.number,
        fmt.p_value,
        fmt.percent,
    )
}
ENVIRONMENT.filters["extract"] = lambda key, mapping: mapping[key]


def render(template: str, **values: Any) -> Markup:
    """Return a template of a page with its values, as markup."""
    return Markup(ENVIRONMENT.get_template(template).render(values))


def style() -> str:
    """Return the style sheet of a page: the colours of figures, and everything else."""
    light = " ".join(f"--{name}: {colour};" for name, colour in TINTS.items())
    tints = " ".join(f".tint-{name} {{ color: var(--{name}); }}" for name in TINTS)
    return f":root {{ {light} }}\n{tints}\n{(TEMPLATES / 'page.css').read_text('utf-8')}"


def script() -> str:
    """Return the script of a page."""
    return (TEMPLATES / "page.js").read_text("utf-8")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column: its heading, the text of a cell, and the value that the page sorts it by (NaN last)."""

    head: str
    cell: Callable[[Row], str]
    order: Callable[[Row], float | str] | None = None
    """By default the text."""
    numeric: bool = True
    interval: Callable[[Row], Estimate] | None = None
    """An interval that the page draws beside the text, on a scale that all rows share."""

    def sort_value(self, row: Row) -> str:
        """Return the exact number or text to sort by, ``nan`` for a number that is not finite."""
        value = self.order(row) if self.order else self.cell(row)
        return value if isinstance(value, str) else repr(value) if math.isfinite(value) else "nan"


class RowStyle(NamedTuple):
    """How a row of the page is selected and marked."""

    key: str
    kind: Kind
    diverged: bool


def html_table(
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    label: str,
    class_: str | None = None,
    style: Callable[[Row], RowStyle] | None = None,
    reach: float | None = None,
) -> Markup:
    """Return a table that scrolls in its own container; with a style, rows can be selected.

    ``reach`` is the end of the scale of drawn intervals, by default the largest end of any.
    """
    scale = reach or reach_of([column.interval(row) for column in columns if column.interval for row in rows])

    def ends_of(estimate: Estimate) -> list[str | None] | None:
        return interval_ends(estimate, scale)

    return render("table.html", columns=columns, rows=rows, label=label, class_=class_, style_of=style, ends_of=ends_of)


def reach_of(estimates: Iterable[Estimate]) -> float:
    """Return the largest end of any interval, which a symmetric scale has to hold."""
    ends = [abs(value) for e in estimates for value in (e.mean, e.low, e.high) if math.isfinite(value)]
    return max(ends, default=0.0)


def interval_ends(estimate: Estimate, reach: float) -> list[str | None] | None:
    """Return low end, mean and high end on a scale from -1 to 1; None for ends that are not known, or for all.

    >>> interval_ends(Estimate(0.1, 0.05, -0.5, 3.0), reach=2.0)
    ['-0.250', '0.050', '1.000']
    """
    if not math.isfinite(estimate.mean) or reach <= 0:
        return None
    values = (estimate.low, estimate.mean, estimate.high)
    return [f"{max(-1, min(1, value / reach)):.3f}" if math.isfinite(value) else None for value in values]


def plain(text: str) -> str:
    """Escape text for Markdown, on one line.

    >>> plain("a|b <script>")
    'a\\\\|b \\\\<script\\\\>'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(clean(text).split()))


def fenced(text: str) -> str:
    """Return text as a code block whose fence is longer than any run of backticks inside."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{clean(text)}\n{fence}"


def markdown_table(columns: Sequence[Column[Row]], rows: Iterable[Row]) -> str:
    """Return a table in Markdown, numbers aligned to the right.

    >>> print(markdown_table([Column("n", str), Column("is", str, numeric=False)], [1]))
    | n | is |
    |---:|---|
    | 1 | 1 |
    """
    cells = [[column.head for column in columns], *([column.cell(row) for column in columns] for row in rows)]
    lines = ["| " + " | ".join(plain(cell) for cell in line) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("---:" if column.numeric else "---" for column in columns) + "|")
    return "\n".join(lines)


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV.

    >>> csv_text(["a", "b"], [[1, "=x"]])
    "a,b\\n1,'=x\\n"
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([csv_cell(value) for value in row] for row in rows)
    return out.getvalue()
