"""The result of a range test, as values and as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from bitcycle._range_test.judging import LevelResult, LevelVerdict
from bitcycle._support.text import table
from bitcycle.schedules.base import Bits


class Conclusion(StrEnum):
    """What a range test found."""

    EVERY_LEVEL_WORKS = "every level works"
    WORKS_FROM_Q_MIN = "works from q_min"
    NO_LEVEL_WORKS = "no level works"
    """The highest level does not work."""
    REFERENCE_DOES_NOT_LEARN = "full precision does not clearly learn"
    REFERENCE_DIVERGES = "full precision diverges"


@dataclass(frozen=True)
class RangeTestResult:
    """The lowest level at which training works, with the result of each level. It prints as a table.

    Args:
        q_min: The lowest level at which training works, and at every tested level above it; ``None`` if there is none.
        conclusion: What was found; ``reason`` explains it in words.
        evidence: The result of each level, in ascending order of bits; empty if full precision does not learn.
        reference: The result of full precision on the same batches.
        iterations: Iterations of each short training.
        share: The share of full precision's progress that a level has to keep.
    """

    q_min: int | None
    conclusion: Conclusion
    evidence: tuple[LevelResult, ...]
    reference: LevelResult
    iterations: int
    share: float

    @property
    def reason(self) -> str:
        """The conclusion in words."""
        setup = "Change the training setup (learning rate, batches, more iterations), not the bits."
        if self.conclusion is Conclusion.REFERENCE_DIVERGES:
            return f"Full precision itself diverges (infinite or NaN) within {self.iterations} iterations. {setup}"
        if self.conclusion is Conclusion.REFERENCE_DOES_NOT_LEARN:
            figures = f"progress {self.reference.progress:.3g}, scatter {self.reference.scatter:.3g}"
            return f"Full precision itself does not clearly learn in {self.iterations} iterations ({figures}). {setup}"
        below = [level for level in self.evidence if self.q_min is None or (level.bits or 0) < self.q_min]
        passing = ", ".join(in_words(level.bits) for level in below if level.works)
        narrow = ", ".join(in_words(level.bits) for level in self.evidence if level.narrow)
        if self.conclusion is Conclusion.NO_LEVEL_WORKS:
            reason = f"No level works: {_keeps(self.evidence[-1])}. Test higher levels."
        elif self.conclusion is Conclusion.EVERY_LEVEL_WORKS:
            lowest = self.evidence[0]
            more = "" if lowest.bits == 1 else " This is the lowest level tested; a lower one may work too."
            reason = f"Every level works: {_keeps(lowest)}.{more}"
        else:
            found = _keeps(self.evidence[len(below)])
            reason = f"Training works from {in_words(self.q_min)} up: {found}, {_keeps(below[-1], of_what='')}."
        if passing:
            reason += f" Some levels below a failing level pass; more seeds can clarify this: {passing}."
        if narrow:
            reason += f" Narrow results, which more seeds may change: {narrow}."
        return reason

    def plot(self, path: Path | str) -> None:
        """Draw the loss curves and the share that each level keeps.

        Args:
            path: A ``.png`` or ``.svg`` file.

        Raises:
            ValueError: If the file is of another kind.
        """
        from bitcycle._range_test.plot import draw_range_test

        draw_range_test(self, Path(path))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "q_min": self.q_min,
            "conclusion": self.conclusion,
            "reason": self.reason,
            "iterations": self.iterations,
            "seeds": len(self.reference.curves),
            "share": self.share,
            "evidence": [level.as_dict() for level in self.evidence],
            "reference": self.reference.as_dict(),
        }

    def __str__(self) -> str:
        heads = ["bits", "progress", "keeps", "95 % interval", "p", "verdict"]
        return table(heads, [_cells(level) for level in (*self.evidence, self.reference)]) + f"\n\n{self.reason}"


def conclude(evidence: Sequence[LevelResult], reference: LevelResult, iterations: int, share: float) -> RangeTestResult:
    """Return the result of a range test.

    q_min is the lowest level at which, and at all higher ones, training works: a schedule visits them all.
    """
    q_min = None
    for level in reversed(evidence):
        if not level.works:
            break
        q_min = level.bits
    if reference.verdict is LevelVerdict.DIVERGES:
        conclusion = Conclusion.REFERENCE_DIVERGES
    elif not reference.works:
        conclusion = Conclusion.REFERENCE_DOES_NOT_LEARN
    elif q_min is None:
        conclusion = Conclusion.NO_LEVEL_WORKS
    elif q_min == evidence[0].bits:
        conclusion = Conclusion.EVERY_LEVEL_WORKS
    else:
        conclusion = Conclusion.WORKS_FROM_Q_MIN
    return RangeTestResult(q_min, conclusion, tuple(evidence), reference, iterations, share)


def in_words(bits: Bits) -> str:
    """Return a width as it reads in a sentence."""
    return "1 bit" if bits == 1 else f"{bits} bits"


def _cells(level: LevelResult) -> list[str]:
    """Return the table cells of a level."""
    width = "full" if level.bits is None else str(level.bits)
    p = "< 0.001" if level.p < 0.001 else f"{level.p:.3f}"
    if level.diverged:
        return [width, "-", "-", "-", p, f"{level.verdict} ({level.diverged} of {len(level.curves)} seeds)"]
    verdict = f"{level.verdict} (narrow)" if level.narrow else str(level.verdict)
    progress = f"{level.progress:.3g}"
    if level.bits is None:
        return [width, progress, "", "", p, verdict]
    if level.kept < -1:  # how much worse than no training it is means nothing
        return [width, progress, "none", "-", p, verdict]
    low, high = level.interval
    interval = "-" if math.isnan(low) else f"{100 * low:.0f} to {100 * high:.0f} %"
    return [width, progress, f"{100 * level.kept:.0f} %", interval, p, verdict]


def _keeps(level: LevelResult, of_what: str = " of full precision's progress") -> str:
    s = "s" if level.bits == 1 else ""
    if level.diverged:
        return f"{in_words(level.bits)} diverge{s} (infinite or NaN)"
    share = f"{100 * level.kept:.0f} %" if level.kept > 0 else "none"
    return f"{in_words(level.bits)} keep{s} {share}{of_what}"
