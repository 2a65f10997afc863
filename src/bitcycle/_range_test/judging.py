"""Does training work at a level? Judged from short trainings at that level and in full precision.

With ``y`` the loss (a metric that should rise is turned round), full precision (``r``) and a level (``q``) trained on
the same batches from the same start, over seeds ``s`` and iterations ``i``; ``B`` is their first tenth, ``E`` their
last third:

    progress    P = mean_s y_r[s, 0] - mean_s median_E y_r[s, i]           how far the loss falls in full precision
    kept        K = mean_s (1 - median_E (y_q[s, i] - y_r[s, i]) / P)      the share of that which the level keeps
    slope test  S = sum_{i in B, j in E} sign(y[s, j] - y[s, i])           z = S / sd(S), summed over seeds

A level works if its loss falls (the slope from ``B`` to ``E`` is significant at 5 %, one-sided) and ``K`` is at least a
half. The slope test is Mann and Whitney's, by ranks, so that no outlier decides it; a slope over all iterations would
miss a level that falls at once and is flat afterwards. Batches are noisy, but both sides see the same ones, and their
noise cancels in ``K``. Full precision itself has to fall by more than three times the scatter of its loss in ``E``:
before that, training has not begun, and bits cannot be judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, median, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle._range_test.trials import Curve
from bitcycle.schedules.base import Bits

Floats = NDArray[np.float64]

LEVEL = 0.05
CLEAR = 3.0
"""Progress of full precision, in scatters of its loss, from which on it has clearly begun to learn."""

# Student's t for a two-sided interval of 95 %, for 1 to 9 degrees of freedom; for more the last is a little too wide.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class Evidence:
    """What the short trainings at one level showed."""

    bits: Bits
    """``None``: full precision, which the levels are compared with."""
    curves: tuple[Curve, ...]
    """What the step returned at each iteration, for each seed."""
    progress: float
    """How far the measure improves, in its own units, from the common start."""
    p: float
    """Of the slope test: the probability of such an improvement if nothing were learnt."""
    kept: float
    """The share of full precision's progress that the level keeps: 1 is all of it, 0 or less is none."""
    interval: tuple[float, float]
    """Of ``kept``, at 95 % over the seeds."""
    diverged: int
    """Seeds at which the measure became infinite or not a number."""
    works: bool
    narrow: bool
    """Whether the interval holds the share that a level has to keep, so that other seeds may decide otherwise."""
    verdict: str

    def as_dict(self) -> dict[str, Any]:
        """Everything, for programs; what is not a number is null."""
        return {name: _plain(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Reference:
    """Full precision: what it showed, and whether it learns."""

    evidence: Evidence
    scatter: float

    @property
    def progress(self) -> float:
        return self.evidence.progress

    @property
    def learns(self) -> bool:
        return self.evidence.works


def judge_reference(curves: Sequence[Curve], higher_is_better: bool) -> Reference:
    """Whether full precision clearly learns, and by how much."""
    losses, diverged = _losses(curves, higher_is_better), _diverged(curves)
    if diverged:
        return Reference(_failed(None, curves, diverged), math.nan)
    ends = [_end(loss) for loss in losses]
    progress = fmean(loss[0] for loss in losses) - fmean(map(median, ends))
    scatter = fmean(map(_scatter, ends))
    p = _p_of_slope(losses)
    learns = p < LEVEL and progress > CLEAR * scatter
    verdict = "learns" if learns else "does not clearly learn"
    evidence = Evidence(None, tuple(curves), progress, p, 1.0, (1.0, 1.0), 0, learns, False, verdict)
    return Reference(evidence, scatter)


def judge(bits: int, curves: Sequence[Curve], reference: Reference, share: float, higher_is_better: bool) -> Evidence:
    """Whether a level works, compared with full precision on the same batches."""
    losses, diverged = _losses(curves, higher_is_better), _diverged(curves)
    if diverged:
        return _failed(bits, curves, diverged)
    of_reference = _losses(reference.evidence.curves, higher_is_better)
    gaps = [[a - b for a, b in zip(*pair, strict=True)] for pair in zip(losses, of_reference, strict=True)]
    each = [1 - median(_end(gap)) / reference.progress for gap in gaps]
    kept, interval = fmean(each), _interval(each)
    p = _p_of_slope(losses)
    works = p < LEVEL and kept >= share
    narrow = p < LEVEL and interval[0] < share <= interval[1]
    verdict = "works" if works else "learns too little" if p < LEVEL else "does not learn"
    if narrow:
        verdict += ", narrowly"
    progress = kept * reference.progress
    return Evidence(bits, tuple(curves), progress, p, kept, interval, 0, works, narrow, verdict)


def _failed(bits: Bits, curves: Sequence[Curve], diverged: int) -> Evidence:
    verdict = f"diverges ({diverged} of {len(curves)} seeds)"
    nothing = (math.nan, math.nan)
    return Evidence(bits, tuple(curves), math.nan, 1.0, math.nan, nothing, diverged, False, False, verdict)


def _losses(curves: Sequence[Curve], higher_is_better: bool) -> list[Curve]:
    return [tuple(-value for value in curve) if higher_is_better else curve for curve in curves]


def _diverged(curves: Sequence[Curve]) -> int:
    return sum(not math.isfinite(curve[-1]) for curve in curves)


def _beginning(values: Sequence[float]) -> Sequence[float]:
    """The first tenth, of at least three values."""
    return values[: max(3, len(values) // 10)]


def _end(values: Sequence[float]) -> Sequence[float]:
    """The last third."""
    return values[-max(1, len(values) // 3) :]


def _scatter(values: Sequence[float]) -> float:
    """The standard deviation that the median distance from the median stands for."""
    return 1.4826 * median(abs(value - median(values)) for value in values)


def _p_of_slope(losses: Sequence[Curve]) -> float:
    """The one-sided p of the slope test over all seeds."""
    z = sum(_rises(np.array(_beginning(loss)), np.array(_end(loss))) for loss in losses)
    return NormalDist().cdf(z / math.sqrt(len(losses)))


def _rises(before: Floats, after: Floats) -> float:
    """Mann and Whitney's z: by how many standard deviations rises outnumber falls; ties narrow the deviation."""
    n = len(before) + len(after)
    s = float(np.sign(after[:, None] - before[None, :]).sum())
    ties = sum(int(t) ** 3 - int(t) for t in np.unique(np.concatenate([before, after]), return_counts=True)[1])
    variance = len(before) * len(after) / 3 * (n + 1 - ties / (n * (n - 1)))
    return s / math.sqrt(variance) if variance > 0 else 0.0


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """One seed alone has no interval."""
    if len(values) < 2:
        return math.nan, math.nan
    t = _T[min(len(values) - 1, len(_T)) - 1]
    half = t * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
