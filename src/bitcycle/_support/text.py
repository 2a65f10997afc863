"""Plain text: tables, cells, large numbers, and values and errors in messages."""

from __future__ import annotations

import reprlib
from collections.abc import Collection
from typing import Any

MAX_REPR = 60
"""The most characters of a value that a message quotes."""


def table(heads: list[str], rows: list[list[str]], right: Collection[str] = ()) -> str:
    """Return a text table whose columns are as wide as their widest cell.

    Args:
        heads: The column headings.
        rows: The cells of each row, as many as there are headings.
        right: The headings of columns that are aligned on the right.

    Returns:
        The lines of the table, without trailing spaces.

    Example:
        >>> print(table(["name", "n"], [["a", "1"], ["longer", "20"]], right=["n"]))
        name     n
        a        1
        longer  20
    """
    columns = zip(heads, *rows, strict=True)
    line = "  ".join(f"%{'' if column[0] in right else '-'}{max(map(len, column))}s" for column in columns)
    return "\n".join((line % tuple(cells)).rstrip() for cells in [heads, *rows])


def short(number: int) -> str:
    """Return a large number with three decimals and a unit: k, M, G or T.

    Args:
        number: The number, not negative.

    Returns:
        The number with its unit; numbers below 1,000 are unchanged.

    Example:
        >>> short(950), short(301_989_888), short(44_392_251_392)
        ('950', '301.990 M', '44.392 G')
    """
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3f} {unit}"
    return str(number)


def short_repr(value: object) -> str:
    """Return a value as a message quotes it: its ``repr`` on one line, cut if it is long.

    A message about a value from a file or a user must stay readable whatever the value is. Python itself refuses to
    write out an integer of many thousand digits.

    Args:
        value: Any value.

    Returns:
        At most about :data:`MAX_REPR` characters.

    Example:
        >>> short_repr("3@0..5"), len(short_repr("(" * 1000)), short_repr(10**5000), short_repr([1, [2, 3]])
        ("'3@0..5'", 63, 'an integer of more than 60 digits', '[1, [2, 3]]')
    """
    if isinstance(value, int) and abs(value) >= 10**MAX_REPR:
        return f"an integer of more than {MAX_REPR} digits"
    text = repr(value[: MAX_REPR + 1]) if isinstance(value, str) else " ".join(reprlib.repr(value).split())
    return text if len(text) <= MAX_REPR + 2 else f"{text[:MAX_REPR]}..."  # 2 quotes


def format_error(error: BaseException) -> str:
    """Return the type and the message of an error in one line.

    >>> format_error(ValueError("two\\nlines"))
    'ValueError: two lines'
    """
    return " ".join(f"{type(error).__name__}: {error}".split())


FORMULA = frozenset("=+-@\t\r")
"""A text that begins with one of these is a formula to a spreadsheet."""


def csv_cell(value: Any) -> Any:
    """Return a value for a cell of a CSV file, such that a spreadsheet does not take a text for a formula.

    A text that begins as a formula does gets an apostrophe before it, which spreadsheets do not show.

    >>> csv_cell("=1+1"), csv_cell("@x"), csv_cell("-3.5"), csv_cell(-3.5), csv_cell("CR:3-8")
    ("'=1+1", "'@x", '-3.5', -3.5, 'CR:3-8')
    """
    if not isinstance(value, str) or value[:1] not in FORMULA:
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
