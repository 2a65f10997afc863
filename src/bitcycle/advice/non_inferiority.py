"""Is a setting as good as the baseline? The one test of non-inferiority, paired over random seeds.

A setting is accepted if it is shown to lose no more than a margin. With the differences ``d`` of quality (positive is
better) over the ``n`` seeds that both share, the one-sided 95 % confidence bounds of the mean difference are

    lower, upper = mean(d) -/+ t * sd(d) / sqrt(n),    t the 95 % quantile of Student's t with n - 1 degrees of freedom,

and the setting is accepted if ``lower >= -margin``. "Not significantly worse" would not do: the fewer the seeds and
the larger their noise, the more settings pass that test. Here noise and few seeds count against a setting. There is
no correction for the number of settings: each one is held to its own margin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from bitcycle._support.extras import need
from bitcycle._support.rounding import NOISE, Floats, power_of_two

CONFIDENCE = 0.95
"""Of each of the two one-sided bounds."""

RELATIVE_MARGIN = 0.01
"""The default margin, relative to the absolute value of the baseline's mean metric."""

FEWEST_SEEDS = 3
"""With fewer shared seeds nothing is accepted: two differences may agree by chance."""


class Judgement(StrEnum):
    """What the test says about a setting."""

    ACCEPTED = "accepted"
    """It loses no more than the margin."""
    NOT_SHOWN = "not shown to be as good"
    """It may be as good, or it may lose more than the margin."""
    WORSE = "worse"
    """It is significantly worse than the baseline, and not within the margin."""
    TOO_FEW_SEEDS = "too few seeds"
    DIVERGED = "diverged"
    """The metric of one of its runs, or of the baseline's, is not a finite number."""


@dataclass(frozen=True)
class NonInferiority:
    """A setting against the baseline: the difference of quality, where positive is better, and what it allows to say.

    Args:
        difference: Mean difference over the shared seeds; NaN if there are none, or if a run diverged.
        lower: One-sided 95 % lower confidence bound of the difference; minus infinity where there is no bound.
        upper: One-sided 95 % upper confidence bound; infinity where there is none.
        margin: The loss that is still acceptable, in the units of the metric; NaN if the baseline diverged.
        pairs: Number of shared seeds.
    """

    difference: float
    lower: float
    upper: float
    margin: float
    pairs: int

    @property
    def judgement(self) -> Judgement:
        """Accepted, not shown to be as good, worse, or why that cannot be decided."""
        if math.isnan(self.lower):
            return Judgement.DIVERGED
        if self.pairs < FEWEST_SEEDS:
            return Judgement.TOO_FEW_SEEDS
        if self.lower >= -self.margin:
            return Judgement.ACCEPTED
        return Judgement.WORSE if self.upper < 0 else Judgement.NOT_SHOWN

    @property
    def accepted(self) -> bool:
        """Whether the setting is as good as the baseline, within the margin."""
        return self.judgement is Judgement.ACCEPTED


def non_inferiority(
    setting: Mapping[int, float],
    baseline: Mapping[int, float],
    *,
    margin: float | None = None,
    higher_is_better: bool = True,
) -> NonInferiority:
    """Test whether a setting is as good as the baseline, within a margin.

    If all differences are equal, Student's t would be certain after two seeds, which a coarse metric can reach by
    chance. The sign test replaces it: the bounds are the common difference itself if ``2^-n`` is below 5 %, that is
    from five seeds on, and infinite before.

    Args:
        setting: The setting's metric by seed.
        baseline: The baseline's metric by seed.
        margin: The acceptable loss, an absolute difference in the metric's units; None for 1 % of the absolute value
            of the baseline's mean metric over all of its seeds.
        higher_is_better: Whether a higher metric is better.

    Returns:
        The difference with its bounds; ``.judgement`` says what they mean.

    Raises:
        ValueError: If the margin is negative or not a finite number.

    Example:
        >>> base = {0: 0.90, 1: 0.91, 2: 0.89, 3: 0.92, 4: 0.90}
        >>> close = {0: 0.901, 1: 0.909, 2: 0.892, 3: 0.918, 4: 0.901}
        >>> found = non_inferiority(close, base)
        >>> round(found.difference, 4), round(found.lower, 4), round(found.margin, 5), str(found.judgement)
        (0.0002, -0.0014, 0.00904, 'accepted')
        >>> str(non_inferiority(close, base, margin=0.001).judgement)
        'not shown to be as good'
    """
    if margin is not None:
        margin = checked_margin(margin)
    sign = 1 if higher_is_better else -1
    seeds = sorted(setting.keys() & baseline.keys())
    everything = np.array([*setting.values(), *baseline.values()], dtype=np.float64)
    if not np.isfinite(everything).all():
        return NonInferiority(math.nan, math.nan, math.nan, math.nan if margin is None else margin, len(seeds))
    power = power_of_two(everything)  # differences and squares of huge metrics would overflow

    def times_power(values: ArrayLike, exponent: int) -> Floats:
        with np.errstate(over="ignore"):
            return np.ldexp(np.asarray(values, dtype=np.float64), exponent)

    if margin is None:
        mean = times_power(list(baseline.values()), -power).mean() if baseline else math.nan
        margin = float(times_power(RELATIVE_MARGIN * abs(mean), power))
    ours, theirs = (sign * times_power([values[seed] for seed in seeds], -power) for values in (setting, baseline))
    noise = NOISE * float(np.abs(times_power(everything, -power)).max(initial=0.0))
    difference, lower, upper = _bounds(ours - theirs, noise)
    lower = _snapped(lower, -float(times_power(margin, -power)), noise)
    difference, lower, upper = times_power([difference, lower, _snapped(upper, 0.0, noise)], power).tolist()
    return NonInferiority(difference, lower, upper, margin, len(seeds))


def checked_margin(margin: float) -> float:
    """Return the margin as a float if it can be one.

    >>> checked_margin(-0.01)
    Traceback (most recent call last):
        ...
    ValueError: margin must be a finite number from 0 up, in the metric's units, got -0.01
    """
    numeric = isinstance(margin, (int, float)) and not isinstance(margin, bool)
    if not numeric or not 0 <= margin < math.inf:
        raise ValueError(f"margin must be a finite number from 0 up, in the metric's units, got {margin!r}")
    return float(margin)


def _bounds(differences: Floats, noise: float) -> tuple[float, float, float]:
    """Mean difference with its one-sided lower and upper bounds."""
    n = differences.size
    if not n:
        return math.nan, -math.inf, math.inf
    mean = float(differences.mean())
    if np.ptp(differences) <= noise:
        mean = 0.0 if abs(mean) <= noise else mean
        return (mean, mean, mean) if 2.0**-n < 1 - CONFIDENCE else (mean, -math.inf, math.inf)
    t = float(need("scipy.stats", "study", "the test against the baseline").t.ppf(CONFIDENCE, n - 1))
    reach = t * float(differences.std(ddof=1)) / math.sqrt(n)
    return mean, mean - reach, mean + reach


def _snapped(bound: float, threshold: float, noise: float) -> float:
    """Return the threshold itself where a bound differs from it by rounding alone."""
    return threshold if abs(bound - threshold) <= noise else bound
