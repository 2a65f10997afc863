"""What a range test found, and how it reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitcycle._range_test.judging import Evidence, Reference
from bitcycle._support.text import table
from bitcycle.schedules.base import Bits

OF_FULL_PRECISION = " of full precision's progress"


@dataclass(frozen=True)
class RangeTest:
    """The lowest level at which training works, with the evidence; prints as a table."""

    q_min: int | None
    """``None`` if no level works, or if full precision itself does not learn."""
    reason: str
    evidence: tuple[Evidence, ...]
    """One for each level, from few bits to many; none if full precision itself does not learn."""
    reference: Evidence
    """Full precision on the same batches."""
    iterations: int
    share: float
    """Of full precision's progress: what a level has to keep."""

    def plot(self, path: Path | str) -> None:
        """Draw the curves and what each level keeps, as PNG or SVG."""
        from bitcycle._range_test.plot import draw_range_test

        draw_range_test(self, Path(path))

    def as_dict(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "q_min": self.q_min,
            "reason": self.reason,
            "iterations": self.iterations,
            "seeds": len(self.reference.curves),
            "share": self.share,
            "evidence": [row.as_dict() for row in self.evidence],
            "reference": self.reference.as_dict(),
        }

    def __str__(self) -> str:
        heads = ["bits", "progress", "keeps", "95 % interval", "p", "verdict"]
        return table(heads, [cells(row) for row in (*self.evidence, self.reference)]) + f"\n\n{self.reason}"


def cells(row: Evidence) -> list[str]:
    """A line of the table of evidence."""
    width = "full" if row.bits is None else str(row.bits)
    p = "< 0.001" if row.p < 0.001 else f"{row.p:.3f}"
    if row.diverged:
        return [width, "-", "-", "-", p, row.verdict]
    progress = f"{row.progress:.3g}"
    if row.bits is None:
        return [width, progress, "", "", p, row.verdict]
    if row.kept < -1:  # by how much it is worse than no training tells nothing
        return [width, progress, "none", "-", p, row.verdict]
    low, high = row.interval
    interval = "-" if math.isnan(low) else f"{100 * low:.0f} to {100 * high:.0f} %"
    return [width, progress, f"{100 * row.kept:.0f} %", interval, p, row.verdict]


def conclude(evidence: Sequence[Evidence], reference: Reference, iterations: int, share: float) -> RangeTest:
    """The result that follows from the evidence.

    q_min is the lowest level at which, and at all higher ones, training works: a schedule visits them all.
    """
    q_min = None
    for row in reversed(evidence):
        if not row.works:
            break
        q_min = row.bits
    reason = _reason(q_min, evidence, reference, iterations)
    return RangeTest(q_min, reason, tuple(evidence), reference.evidence, iterations, share)


def _reason(q_min: int | None, evidence: Sequence[Evidence], reference: Reference, iterations: int) -> str:
    if not reference.learns:
        return _not_a_question_of_bits(reference, iterations)
    if q_min is None:
        sentences = [f"No level works: {_keeps(evidence[-1])}. Test higher levels."]
    elif q_min == evidence[0].bits:
        sentences = [f"Every level works: {_keeps(evidence[0])}."]
        sentences += ["It is the lowest tested; a lower one may work too."] if q_min > 1 else []
    else:
        below = next(row for row in reversed(evidence) if row.bits is not None and row.bits < q_min)
        found = next(row for row in evidence if row.bits == q_min)
        short = _keeps(below).removesuffix(OF_FULL_PRECISION)
        sentences = [f"Training works from {in_words(q_min)} on: {_keeps(found)}, {short}."]
    stray = [row.bits for row in evidence if row.works and (q_min is None or (row.bits or 0) < q_min)]
    if stray:
        low = ", ".join(map(in_words, stray))
        sentences.append(f"Lower levels pass too, below one that does not; more seeds would tell: {low}.")
    narrow = ", ".join(in_words(row.bits) for row in evidence if row.narrow)
    if narrow:
        sentences.append(f"Narrow, so that more seeds may decide otherwise: {narrow}.")
    return " ".join(sentences)


def _keeps(row: Evidence) -> str:
    s = "s" if row.bits == 1 else ""
    if row.diverged:
        return f"{in_words(row.bits)} diverge{s} (infinite or not a number)"
    share = f"{100 * row.kept:.0f} %" if row.kept > 0 else "none"
    return f"{in_words(row.bits)} keep{s} {share}{OF_FULL_PRECISION}"


def in_words(bits: Bits) -> str:
    """How a width is called in a sentence."""
    return "1 bit" if bits == 1 else f"{bits} bits"


def _not_a_question_of_bits(reference: Reference, iterations: int) -> str:
    if reference.evidence.diverged:
        what = f"Full precision itself diverges (infinite or not a number) within {iterations} iterations"
    else:
        what = (
            f"Full precision itself does not clearly learn in {iterations} iterations "
            f"(progress {reference.progress:.3g} with a scatter of {reference.scatter:.3g})"
        )
    return f"{what}: this is a question of the training (learning rate, batches, more iterations), not of bits."
