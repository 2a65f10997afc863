"""Text, tables and code in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bitcycle._study.analysis import Analysis, Claim, DeficitAnalysis
from bitcycle._study.report.findings import ICONS
from bitcycle._study.report.markup import clean
from bitcycle._study.wording import details

# Letters that mean something to Markdown within a line.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#$&])")


def plain(text: str) -> str:
    """Text that Markdown shows letter by letter, on one line.

    >>> plain("a|b <script>")
    'a\\\\|b \\\\<script\\\\>'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(clean(text).split()))


def claims_of(claims: Sequence[Claim], analysis: Analysis | DeficitAnalysis) -> str:
    """List claims under one another, each with its verdict."""
    return "\n".join(f"- {ICONS[c.verdict]} **{plain(c.verdict)}**: {plain(details(c, analysis))}" for c in claims)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> str:
    """A table in Markdown, numbers to the right.

    >>> print(table(["name", "n"], [["a", "1"]], [False, True]))
    | name | n |
    |---|---:|
    | a | 1 |
    """
    lines = ["| " + " | ".join(plain(cell) for cell in row) + " |" for row in (heads, *rows)]
    lines.insert(1, "|" + "|".join("---:" if number else "---" for number in numeric) + "|")
    return "\n".join(lines)


def fenced(text: str) -> str:
    """Text as a block of code, whatever it holds: the fence is longer than any row of backticks inside."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{clean(text)}\n{fence}"
