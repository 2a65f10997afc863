"""Tables: as HTML that the page can sort, as Markdown, and as CSV for programs."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from bitcycle._support.charts.drawing import MarkShape, line, mark
from bitcycle._support.charts.markup import Markup, clean, escape, tag
from bitcycle._support.charts.scale import Scale
from bitcycle._support.text import csv_cell
from bitcycle.lab.statistics.analysis import Estimate

Row = TypeVar("Row")
INTERVAL_WIDTH, INTERVAL_HEIGHT = 120.0, 18.0

# Characters that mean something to Markdown within a line.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#$&])")


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


@dataclass(frozen=True)
class RowStyle:
    """How a row of the page is identified and marked."""

    key: str
    sign: Markup
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
    if reach is None:
        reach = reach_of([column.interval(row) for column in columns if column.interval for row in rows])
    heads = [tag("th", column.head, scope="col", class_="number" if column.numeric else None) for column in columns]
    body = [_row(columns, row, style(row) if style else None, reach) for row in rows]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body), class_=class_)
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)


def reach_of(estimates: Iterable[Estimate]) -> float:
    """Return the largest end of any interval, which a symmetric scale has to hold."""
    ends = [abs(value) for e in estimates for value in (e.mean, e.low, e.high) if math.isfinite(value)]
    return max(ends, default=0.0)


def _row(columns: Sequence[Column[Row]], row: Row, style: RowStyle | None, reach: float) -> Markup:
    first, *others = columns
    name = escape(first.cell(row))
    if style:
        name = style.sign + tag("button", name, **picking(style.key))
    cells = [tag("th", name, scope="row", data_sort=first.sort_value(row))]
    for column in others:
        drawn = interval_drawing(column.interval(row), reach) if column.interval else ""
        class_ = "number" if column.numeric else None
        cells.append(tag("td", drawn, column.cell(row), class_=class_, data_sort=column.sort_value(row)))
    class_ = "diverged" if style and style.diverged else None
    return tag("tr", *cells, class_=class_, data_setting=style.key if style else None)


def picking(key: str, class_: str = "pick") -> dict[str, str]:
    """Return the attributes of a button that selects what has this key."""
    return {"type": "button", "class_": class_, "data_setting": key, "aria_pressed": "false"}


def interval_drawing(estimate: Estimate, reach: float) -> Markup:
    """Draw a mean and its interval on a scale from ``-reach`` to ``reach``, small enough for a table row.

    >>> interval_drawing(Estimate(0.1, 0.05, 0.0, 0.2), reach=1.0).count("<line")
    3
    """
    if not math.isfinite(estimate.mean) or reach <= 0:
        return Markup("")
    scale = Scale(-reach, reach, 4, INTERVAL_WIDTH - 4)
    middle = INTERVAL_HEIGHT / 2
    low, mean, high = (max(-reach, min(reach, value)) for value in (estimate.low, estimate.mean, estimate.high))
    parts = [line(scale.start, middle, scale.end, middle, "grid")]
    parts.append(line(scale(0), 1, scale(0), INTERVAL_HEIGHT - 1, "axis"))
    if math.isfinite(estimate.low) and math.isfinite(estimate.high):
        parts.append(line(scale(low), middle, scale(high), middle, "bar"))
    parts.append(mark(MarkShape.CIRCLE, scale(mean), middle, 3.5))
    view = f"0 0 {INTERVAL_WIDTH:.0f} {INTERVAL_HEIGHT:.0f}"
    return tag("svg", *parts, viewBox=view, class_="interval", aria_hidden="true")


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
