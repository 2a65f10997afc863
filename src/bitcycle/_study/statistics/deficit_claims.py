"""What the deficit experiments allow to claim.

Slopes are fitted seed by seed, ``quality - quality of the control = a + slope * place``, and averaged; the interval of
their mean is that of Student's t over seeds. So neither seeds that start higher or lower nor what the further steps of
a longer training do by themselves blur the effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from bitcycle._study.analysis import Claim, Comparison, DeficitPoint
from bitcycle._study.deficits import ARMS
from bitcycle._study.statistics.comparisons import compare
from bitcycle._study.statistics.resampling import LEVEL
from bitcycle._study.statistics.scipy_stats import stats
from bitcycle._study.statistics.wording import number


class Mean(NamedTuple):
    """A mean over seeds with the 95 % interval of Student's t, NaN where there is none.

    >>> print(Mean(-0.02, -0.03, -0.01))
    -0.02 (95 % interval -0.03 to -0.01)
    >>> print(Mean(-0.02, math.nan, math.nan))
    -0.02 (no interval)
    """

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if not math.isfinite(self.mean):
            return "an amount that is not finite (a run diverged)"
        if math.isnan(self.low):
            return f"{number(self.mean)} (no interval)"
        return f"{number(self.mean)} (95 % interval {number(self.low)} to {number(self.high)})"


def length_claims(points: list[DeficitPoint], sign: int, metric: str) -> list[Claim]:
    """Does an initial deficit do damage that grows and lasts, and does a restart mend it?"""
    held, restarted, longer = (_arm(points, arm) for arm in ARMS)
    none = [point for point in longer if point.place == 0]  # a deficit of no length is the control itself
    claims = []
    slope = _slope([*none, *held], longer, sign)
    if slope is not None:
        change = _worded(slope, "rises", "falls", "is not shown to change")
        text = f"Final quality {change} with the length of an initial deficit: against as many steps without one, "
        text += f"{_turned(metric)} changes by {slope} per normal training of deficit."
        claims.append(Claim(text, _verdict(slope, wanted=-1)))
    compared = [point for point in held if point.loss is not None and point.loss.pairs]
    if compared:
        claims.append(_lasting(compared[-1], metric))
    both = [(a, b) for a in held for b in restarted if a.place == b.place and a.qualities.keys() & b.qualities.keys()]
    if both:
        claims.append(_restart(*both[-1], sign, metric))
    return claims


def _lasting(longest: DeficitPoint, metric: str) -> Claim:
    loss = _mean_of(longest.loss)
    begin = _worded(loss, "The deficit even helped", "The damage lasts", "Lasting damage is not shown")
    return Claim(
        f"{begin}: after the longest initial deficit ({longest.place:,} steps) and a whole normal training, "
        f"{_turned(metric)} differs by {loss} from as many steps without a deficit.",
        _verdict(loss, wanted=-1),
    )


def _restart(held: DeficitPoint, restarted: DeficitPoint, sign: int, metric: str) -> Claim:
    gained = _mean_of(compare(restarted.qualities, held.qualities, sign))
    effect = _worded(gained, "helps", "hurts", "is not shown to change anything")
    gap, left = _mean_of(held.loss), _mean_of(restarted.loss)
    shown = gap.high < 0 and math.isfinite(left.mean)
    share = f" Of the gap of {number(-gap.mean)} to the control it leaves {number(-left.mean)}." if shown else ""
    return Claim(
        f"Restarting the learning rate after the longest initial deficit {effect}: {_turned(metric)} changes by "
        f"{gained} against holding it.{share}",
        _verdict(gained, wanted=1),
    )


def position_claims(points: list[DeficitPoint], sign: int, metric: str) -> list[Claim]:
    """Does a deficit hurt less the later it comes?"""
    longer = _arm(points, "longer")
    claims = []
    for arm, words in (("held", "held through it"), ("restarted", "restarted after it")):
        slope = _slope(_arm(points, arm), longer, sign)
        if slope is not None:
            effect = _worded(slope, "hurts less", "hurts more", "is not shown to hurt less or more")
            text = f"With the learning rate {words}, a deficit of the same length placed later {effect}: "
            text += f"against the control without one, {_turned(metric)} changes by {slope}"
            claims.append(Claim(f"{text} per normal training that it is moved.", _verdict(slope, wanted=1)))
    return claims


def _turned(metric: str) -> str:
    return f"{metric} (positive: better)"


def _arm(points: Sequence[DeficitPoint], arm: str) -> list[DeficitPoint]:
    return [point for point in points if point.arm == arm]


def _slope(points: Sequence[DeficitPoint], control: Sequence[DeficitPoint], sign: int) -> Mean | None:
    """The mean over seeds of the slope, along the places, of the difference to the control.

    A slope is a difference of two weighted sums of qualities; so it is compared as two settings are, which tells
    rounding from an effect. Seeds that lack a run are left out, and so are places without a control.
    """
    beside = {point.place: point.qualities for point in control}
    points = [point for point in points if point.place in beside]
    if len({point.place for point in points}) < 2:
        return None
    middle = math.fsum(point.share for point in points) / len(points)
    scale = math.fsum((point.share - middle) ** 2 for point in points)
    seeds = set.intersection(*(point.qualities.keys() & beside[point.place].keys() for point in points))
    rising, falling = dict.fromkeys(seeds, 0.0), dict.fromkeys(seeds, 0.0)
    for point in points:
        weight = (point.share - middle) / scale
        for seed in seeds:
            ours, theirs = (abs(weight) * qualities[seed] for qualities in (point.qualities, beside[point.place]))
            rising[seed] += ours if weight > 0 else theirs
            falling[seed] += theirs if weight > 0 else ours
    return _mean_of(compare(rising, falling, sign)) if seeds else None


def _mean_of(comparison: Comparison | None) -> Mean:
    if comparison is None:
        return Mean(math.nan, math.nan, math.nan)
    found = comparison.difference
    if comparison.pairs < 2:
        return Mean(found.mean, math.nan, math.nan)
    reach = float(stats().t.isf(LEVEL / 2, comparison.pairs - 1)) * found.error
    low, high = found.mean - reach, found.mean + reach
    if comparison.p >= LEVEL and not low <= 0 <= high:
        # Where all seeds differ alike the interval has no width; the test knows rounding and chance from an effect.
        return Mean(0.0, 0.0, 0.0) if comparison.p == 1 else Mean(found.mean, math.nan, math.nan)
    return Mean(found.mean, low, high)


def _worded(found: Mean, up: str, down: str, neither: str) -> str:
    """By what the interval allows."""
    return up if found.low > 0 else down if found.high < 0 else neither


def _verdict(found: Mean, wanted: int) -> str:
    if math.isnan(found.low):
        return "open"
    low, high = (found.low, found.high) if wanted > 0 else (-found.high, -found.low)
    return "supported" if low > 0 else "contradicted" if high < 0 else "open"
