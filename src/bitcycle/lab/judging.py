"""Is one setting as good as another? The one judge of the project: an effect with its bounds, and a rule with a margin.

With the differences ``d`` of quality (positive is better) over the ``n`` random seeds that both settings share, the
one-sided 95 % confidence bounds of the mean difference are

    lower, upper = mean(d) -/+ t * sd(d) / sqrt(n),    t the 95 % quantile of Student's t with n - 1 degrees of freedom,

and the rule compares them with zero and with a margin, the loss that is still acceptable. "Not significantly worse"
would not do as a definition of "as good": the fewer the seeds and the larger their noise, the more settings pass that
test. Here noise and few seeds count against a setting. There is no correction for the number of settings: each one is
held to its own margin.

The report of a study, advice from records and the evidence all judge with this module.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from bitcycle._support.student_t import Floats, mean_with_bounds

CONFIDENCE = 0.95
"""Of each of the two one-sided bounds."""

RELATIVE_MARGIN = 0.01
"""The default margin, relative to the absolute value of the baseline's mean metric."""

MIN_SEEDS = 3
"""With fewer shared seeds nothing is accepted: two differences may agree by chance."""

MAX_METRIC = 1e100
"""A run with a larger metric has diverged. Squares of metrics up to here do not overflow."""

NOISE = 1e-12
"""Relative to the values at hand, anything smaller is floating-point rounding, which must not decide anything."""

_DIGITS = 13


class Judgement(StrEnum):
    """What an effect and a margin say about a setting."""

    BETTER = "better"
    """The lower bound is above zero."""
    AS_GOOD = "as good"
    """The lower bound is not below minus the margin: it loses no more than the margin."""
    WORSE = "worse"
    """The upper bound is below zero, and a loss beyond the margin is not excluded."""
    UNCLEAR = "not shown to be as good"
    """It may be as good, or it may lose more than the margin."""
    TOO_FEW_SEEDS = "too few seeds"
    DIVERGED = "diverged"
    """The metric of a run is not a finite number, or beyond :data:`MAX_METRIC`."""

    @property
    def accepts(self) -> bool:
        """Whether the setting is at least as good, within the margin."""
        return self in (Judgement.BETTER, Judgement.AS_GOOD)


@dataclass(frozen=True)
class Effect:
    """A mean difference over random seeds with its one-sided confidence bounds; positive is better.

    Args:
        mean: Mean difference over the shared seeds; NaN if there are none, or if a run diverged.
        lower: Lower confidence bound; minus infinity where there is no bound.
        upper: Upper confidence bound; infinity where there is none.
        seeds: Number of shared seeds.
    """

    mean: float
    lower: float
    upper: float
    seeds: int

    def judge(self, margin: float, min_seeds: int = MIN_SEEDS) -> Judgement:
        """Apply the rule.

        >>> bounds = [(0.1, 0.3), (-0.05, 0.2), (-0.3, -0.1), (-0.3, 0.1)]
        >>> [str(Effect(0.0, *each, seeds=5).judge(margin=0.1)) for each in bounds]
        ['better', 'as good', 'worse', 'not shown to be as good']
        """
        if math.isnan(self.lower):
            return Judgement.DIVERGED
        if self.seeds < min_seeds:
            return Judgement.TOO_FEW_SEEDS
        if self.lower > 0:
            return Judgement.BETTER
        if self.lower >= -margin:
            return Judgement.AS_GOOD
        return Judgement.WORSE if self.upper < 0 else Judgement.UNCLEAR


@dataclass(frozen=True)
class NonInferiority(Effect):
    """A setting against the baseline, with the margin it is held to, in the metric's units.

    The margin is NaN if it was to be computed from a baseline that diverged.
    """

    margin: float

    @property
    def judgement(self) -> Judgement:
        """What the bounds and the margin say."""
        return self.judge(self.margin)

    @property
    def accepted(self) -> bool:
        """Whether the setting is as good as the baseline, within the margin."""
        return self.judgement.accepts


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
        >>> round(found.mean, 4), round(found.lower, 4), round(found.margin, 5), str(found.judgement)
        (0.0002, -0.0014, 0.00904, 'as good')
        >>> str(non_inferiority(close, base, margin=0.001).judgement)
        'not shown to be as good'
    """
    if margin is not None:
        margin = validate_margin(margin)
    sign = 1 if higher_is_better else -1
    seeds = sorted(setting.keys() & baseline.keys())
    everything = np.array([*setting.values(), *baseline.values()], dtype=np.float64)
    if not (np.abs(everything) <= MAX_METRIC).all():
        return NonInferiority(math.nan, math.nan, math.nan, len(seeds), math.nan if margin is None else margin)
    if margin is None:
        margin = RELATIVE_MARGIN * abs(float(np.mean(list(baseline.values())))) if baseline else math.nan
    ours, theirs = (sign * np.array([values[seed] for seed in seeds]) for values in (setting, baseline))
    noise = NOISE * float(np.abs(everything).max(initial=0.0))
    mean, lower, upper = _bounds(ours - theirs, noise)
    return NonInferiority(mean, _snap(lower, -margin, noise), _snap(upper, 0.0, noise), len(seeds), margin)


def validate_margin(margin: float) -> float:
    """Return the margin as a float if it can be one.

    >>> validate_margin(-0.01)
    Traceback (most recent call last):
        ...
    ValueError: margin must be a finite number from 0 up, in the metric's units, got -0.01
    """
    numeric = isinstance(margin, (int, float)) and not isinstance(margin, bool)
    if not numeric or not 0 <= margin < math.inf:
        raise ValueError(f"margin must be a finite number from 0 up, in the metric's units, got {margin!r}")
    return float(margin)


def _bounds(differences: Floats, noise: float) -> tuple[float, float, float]:
    """Mean difference with its one-sided lower and upper bounds; the sign test bounds equal differences."""
    n = differences.size
    if not n:
        return math.nan, -math.inf, math.inf
    if np.ptp(differences) <= noise:
        mean = float(differences.mean())
        mean = 0.0 if abs(mean) <= noise else mean
        return (mean, mean, mean) if 2.0**-n < 1 - CONFIDENCE else (mean, -math.inf, math.inf)
    return mean_with_bounds(differences, CONFIDENCE)


def _snap(bound: float, threshold: float, noise: float) -> float:
    """Return the threshold itself where a bound differs from it by rounding alone."""
    return threshold if abs(bound - threshold) <= noise else bound


def significant(values: ArrayLike) -> Floats:
    """Round values to 13 significant digits, so that means that are equal on paper compare equal.

    >>> a, b = (0.1 + 0.2 + 0.3) / 3, (0.3 + 0.2 + 0.1) / 3
    >>> a == b, bool(significant(a) == significant(b))
    (False, True)
    """
    array: Floats = np.asarray(values, dtype=np.float64)
    fractions, exponents = np.frexp(array)
    return np.ldexp(np.round(fractions, _DIGITS), exponents)
