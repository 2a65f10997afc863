"""Plain tables of text."""

from __future__ import annotations


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Rows under their heads, in columns as wide as their widest cell.

    >>> print(table(["name", "n"], [["a", "1"], ["longer", "2"]]))
    name    n
    a       1
    longer  2
    """
    widths = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in [heads, *rows]]
    return "\n".join(line.rstrip() for line in lines)


def short(number: int) -> str:
    """A large number in five figures or so.

    >>> short(950), short(301_989_888), short(44_392_251_392)
    ('950', '301.990 M', '44.392 G')
    """
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3f} {unit}"
    return str(number)
