"""Columns of tables: what a cell says, and by what it is sorted. The page can sort a table by a column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from bitcycle._study.analysis import Comparison
from bitcycle._study.report.interval_plot import interval_plot
from bitcycle._study.report.markup import Markup, join, tag

Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column: its head, what a cell says, and the number to sort it by (NaN comes last)."""

    head: str
    cell: Callable[[Row], str]
    order: Callable[[Row], float | str]
    numeric: bool = True


def sorted_by(value: float | str) -> str:
    """What the page sorts a cell by: the exact number; what is not finite is not a number to the script.

    >>> sorted_by(0.1), sorted_by(float("inf")), sorted_by("CR")
    ('0.1', 'nan', 'CR')
    """
    return value if isinstance(value, str) else repr(value) if math.isfinite(value) else "nan"


def cell_of(column: Column[Row], row: Row, content: str | None = None) -> Markup:
    """A cell, with a content other than the column's words if it is given."""
    kind = "number" if column.numeric else None
    said = column.cell(row) if content is None else content
    return tag("td", said, class_=kind, data_sort=sorted_by(column.order(row)))


def table_of(columns: Iterable[Column[Row]], rows: Iterable[Markup], label: str, class_: str = "sortable") -> Markup:
    """A table that the page can sort, in a container of its own that scrolls where the page is narrow."""
    heads = [tag("th", column.head, scope="col", class_="number" if column.numeric else None) for column in columns]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_=class_)
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)


def with_drawing(content: str, comparison: Comparison, all_of_them: Iterable[Comparison]) -> Markup:
    """A difference with its interval as a drawing beside the words, on a scale that all rows share."""
    ends = [
        abs(value)
        for other in all_of_them
        for value in (other.difference.mean, other.difference.low, other.difference.high)
        if math.isfinite(value)
    ]
    difference = comparison.difference
    drawn = interval_plot(difference.mean, difference.low, difference.high, max(ends)) if ends else Markup("")
    return join([drawn, content])
