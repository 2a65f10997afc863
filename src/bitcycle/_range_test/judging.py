"""Does training work at a level? Decided from short trainings at that level and in full precision.

With ``y`` the loss (a metric that should rise is negated), full precision (``r``) and a level (``q``) trained on the
same batches from the same start, over seeds ``s`` and iterations ``i``; ``B`` is the first tenth of the iterations and
``E`` the last third:

    progress    P = mean_s y_r[s, 0] - mean_s median_E y_r[s, i]           how far the loss falls in full precision
    kept        K = mean_s (1 - median_E (y_q[s, i] - y_r[s, i]) / P)      the share of it that the level keeps
    slope test  S = sum_{i in B, j in E} sign(y[s, j] - y[s, i])           z = S / sd(S), summed over seeds

A level works if its loss falls (the slope from ``B`` to ``E`` is significant at 5 %, one-sided) and ``K`` is at least
the required share, by default a half. The slope test is the rank test of Mann and Whitney, so no outlier decides it; a
slope over all iterations would miss a level whose loss falls at once and is flat afterwards. Losses of batches are
noisy, but both trainings see the same batches, so the noise cancels in ``K``. Full precision must fall by more than
three times the scatter of its loss in ``E``: before that, training has not begun, and bits cannot be judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from statistics import NormalDist, fmean, median
from typing import Any

import numpy as np

from bitcycle._support.student_t import Floats, mean_with_bounds
from bitcycle.schedules.base import Bits

Curve = tuple[float, ...]
"""What the step returned at each iteration."""

LEVEL = 0.05
"""Significance level of the slope test."""

CLEAR = 3.0
"""Full precision clearly learns if its progress exceeds the scatter of its loss by this factor."""

INTERVAL = 0.975
"""Confidence of each bound of a two-sided interval of 95 %."""


class LevelVerdict(StrEnum):
    """What the short trainings at a level, or in full precision, show."""

    WORKS = "works"
    """The loss falls, and the level keeps the required share of full precision's progress."""
    LEARNS_TOO_LITTLE = "learns too little"
    """The loss falls, but the level keeps less than the required share."""
    DOES_NOT_LEARN = "does not learn"
    """The loss does not fall significantly."""
    DIVERGES = "diverges"
    """The loss becomes infinite or NaN for some seed."""
    LEARNS = "learns"
    """Full precision only: the loss clearly falls."""
    DOES_NOT_CLEARLY_LEARN = "does not clearly learn"
    """Full precision only: the loss does not fall significantly, or by less than its scatter asks for."""


@dataclass(frozen=True)
class LevelResult:
    """The result of the short trainings at one level.

    Args:
        bits: The level; ``None`` is full precision, the reference of all levels.
        curves: What the step returned at each iteration, for each seed.
        progress: How far the loss or metric improves from the common start, in its own units.
        p: p-value of the slope test.
        kept: Share of full precision's progress that the level keeps: 1 is all of it, 0 or less is none.
        interval: 95 % confidence interval of ``kept`` over the seeds; NaN for a single seed.
        scatter: Robust standard deviation of the loss over the last third of iterations.
        diverged: Number of seeds whose loss became infinite or NaN.
        verdict: What this means.
        narrow: Whether the interval contains the required share, so other seeds could change the verdict.
    """

    bits: Bits
    curves: tuple[Curve, ...]
    progress: float
    p: float
    kept: float
    interval: tuple[float, float]
    scatter: float
    diverged: int
    verdict: LevelVerdict
    narrow: bool

    @property
    def works(self) -> bool:
        """Whether training works at this level."""
        return self.verdict in (LevelVerdict.WORKS, LevelVerdict.LEARNS)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON; infinite values and NaN are ``None``."""
        return {name: _plain(value) for name, value in {**asdict(self), "works": self.works}.items()}


def judge(
    bits: Bits, curves: Sequence[Curve], reference: LevelResult | None, share: float, higher_is_better: bool
) -> LevelResult:
    """Return the result of a level, compared with full precision on the same batches.

    Without a reference, it is that of full precision itself: whether it clearly learns, and by how much.
    """
    diverged = sum(not math.isfinite(curve[-1]) for curve in curves)
    if diverged:
        nan, verdict = math.nan, LevelVerdict.DIVERGES
        return LevelResult(bits, tuple(curves), nan, 1.0, nan, (nan, nan), nan, diverged, verdict, narrow=False)
    losses = _losses(curves, higher_is_better)
    ends = [_end(loss) for loss in losses]
    scatter, p = fmean(map(_scatter, ends)), _p_of_slope(losses)
    if reference is None:
        progress = fmean(loss[0] for loss in losses) - fmean(map(median, ends))
        learns = p < LEVEL and progress > CLEAR * scatter
        verdict = LevelVerdict.LEARNS if learns else LevelVerdict.DOES_NOT_CLEARLY_LEARN
        return LevelResult(bits, tuple(curves), progress, p, 1.0, (1.0, 1.0), scatter, 0, verdict, narrow=False)
    pairs = zip(losses, _losses(reference.curves, higher_is_better), strict=True)
    gaps = [[a - b for a, b in zip(*pair, strict=True)] for pair in pairs]
    kept, lower, upper = mean_with_bounds([1 - median(_end(gap)) / reference.progress for gap in gaps], INTERVAL)
    verdict = LevelVerdict.WORKS if kept >= share else LevelVerdict.LEARNS_TOO_LITTLE
    if p >= LEVEL:
        verdict = LevelVerdict.DOES_NOT_LEARN
    narrow = p < LEVEL and lower < share <= upper
    progress = kept * reference.progress
    return LevelResult(bits, tuple(curves), progress, p, kept, (lower, upper), scatter, 0, verdict, narrow)


def _losses(curves: Sequence[Curve], higher_is_better: bool) -> list[Curve]:
    return [tuple(-value for value in curve) if higher_is_better else curve for curve in curves]


def _end(values: Sequence[float]) -> Sequence[float]:
    """Return the last third."""
    return values[-max(1, len(values) // 3) :]


def _scatter(values: Sequence[float]) -> float:
    """Return the standard deviation, estimated robustly from the median absolute deviation."""
    return 1.4826 * median(abs(value - median(values)) for value in values)


def _p_of_slope(losses: Sequence[Curve]) -> float:
    """Return the one-sided p-value of the slope test over all seeds."""
    z = sum(_mann_whitney_z(np.array(loss[: max(3, len(loss) // 10)]), np.array(_end(loss))) for loss in losses)
    return NormalDist().cdf(z / math.sqrt(len(losses)))


def _mann_whitney_z(before: Floats, after: Floats) -> float:
    """Return by how many standard deviations rises outnumber falls; ties reduce the standard deviation."""
    n = len(before) + len(after)
    s = float(np.sign(after[:, None] - before[None, :]).sum())
    ties = sum(int(t) ** 3 - int(t) for t in np.unique(np.concatenate([before, after]), return_counts=True)[1])
    variance = len(before) * len(after) / 3 * (n + 1 - ties / (n * (n - 1)))
    return s / math.sqrt(variance) if variance > 0 else 0.0


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
