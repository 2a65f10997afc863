"""Figures for programs: exact numbers, nothing rounded, as columns that several CSV files share."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence

from bitcycle._study.analysis import Comparison, Estimate

FIGURES = (
    *("seeds", "mean", "standard_error", "low", "high", "diverged"),
    *("difference", "difference_low", "difference_high", "p", "p_corrected", "verdict"),
)
"""Of a quality over seeds, and of its comparison with a baseline or a control."""


def figures(qualities: Mapping[int, float], quality: Estimate, comparison: Comparison | None) -> list[object]:
    """What stands under :data:`FIGURES`; empty cells where nothing was compared."""
    own: list[object] = [len(qualities), quality.mean, quality.error, quality.low, quality.high]
    own.append(not math.isfinite(quality.mean))
    if comparison is None:
        return [*own, *[""] * 6]
    found = comparison.difference
    return [*own, found.mean, found.low, found.high, comparison.p, comparison.corrected, comparison.outcome]


def csv_of(heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """A table as CSV.

    >>> csv_of(["a", "b"], [[1, "x"]])
    'a,b\\n1,x\\n'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(lines)
    return out.getvalue()
