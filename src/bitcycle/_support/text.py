"""Plain text: tables, and values in messages."""

from __future__ import annotations

import reprlib
from collections.abc import Collection

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
