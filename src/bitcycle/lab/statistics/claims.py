"""What a study can claim, one class for each kind of claim, with the numbers behind it.

``bitcycle.lab.statistics`` decides them, ``bitcycle.lab.report.wording`` puts them into words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bitcycle.lab.judging import Judgement, NonInferiority
from bitcycle.lab.statistics.analysis import Claim, Comparison, Correlation, Interval, Outcome
from bitcycle.lab.studies.deficits import Arm

ENOUGH_SEEDS = 5
"""The fewest from which an interval can cover more than 90 %."""


@dataclass(frozen=True)
class QualityFollowsCost(Claim):
    """Quality rises with cost: both intervals of Spearman's correlation lie above zero."""

    over_settings: Correlation
    over_runs: Correlation
    different_costs: int
    """Number of costs that lie more than 1 % apart."""


@dataclass(frozen=True)
class SchedulesAgainstBaseline(Claim):
    """Some schedule beats the baseline."""

    baseline: str
    labels: Mapping[Outcome, tuple[str, ...]]
    """The schedules by the outcome of their comparison."""


@dataclass(frozen=True)
class CheapestAcceptable(Claim):
    """Some cheaper setting is as good as the baseline, within the margin."""

    baseline: str
    label: str | None
    """The cheapest such setting; None if there is none."""
    test: NonInferiority | None
    judged: Mapping[Judgement, tuple[str, ...]]
    """All cheaper settings by what the test says about them."""


@dataclass(frozen=True)
class EarlyPrecision(Claim):
    """At equal cost, quality rises with the bits of the first tenth of training."""

    labels: tuple[str, ...]
    """From most early precision to least."""
    spread: float
    """How much more the most expensive of them costs than the cheapest, as a share."""
    p: float
    reversed_p: float
    spearman: Correlation


@dataclass(frozen=True)
class HighStart(Claim):
    """In pairs of equal cost, the schedule that starts at high precision is better."""

    pairs: tuple[tuple[str, str, Comparison], ...]
    """The schedule that starts high, the one that starts low, and their comparison."""


@dataclass(frozen=True)
class PrecisionMatters(Claim):
    """The lowest static bit-width is worse than the baseline."""

    lowest: str
    baseline: str
    outcome: Outcome
    difference: float
    """Of the mean metric; negative: the lowest width is worse."""
    diverged: int
    """Number of runs of the lowest width that diverged."""


@dataclass(frozen=True)
class DivergedRuns(Claim):
    """Some runs ended with a metric that is not a finite number."""

    diverged: Mapping[str, int]
    """Number of diverged runs by label; settings without any are left out."""
    runs: int
    """Number of all runs."""
    baseline: str | None
    """The baseline, if it is among them."""


@dataclass(frozen=True)
class FewSeeds(Claim):
    """Some settings have fewer seeds than it takes."""

    seeds: Mapping[str, int]
    """Number of seeds by label, of the settings that have too few."""
    all_alike: bool
    """Whether every setting of the group has the same number."""
    coverage: float
    """The highest probability with which an interval from the fewest seeds can cover the median."""
    comparisons: int
    """Number of settings tested against the baseline."""
    hurdle: float
    """Standard errors that a difference must exceed to be significant among so many; NaN where nothing is tested."""


@dataclass(frozen=True)
class GrowingDamage(Claim):
    """Final quality falls with the length of an initial deficit."""

    slope: Interval
    """Change of quality per normal run of deficit, against as many steps without one."""


@dataclass(frozen=True)
class LastingDamage(Claim):
    """After the longest initial deficit, a whole normal run does not make up for it."""

    steps: int
    """Of the deficit."""
    difference: Interval
    """From as many steps without a deficit."""


@dataclass(frozen=True)
class RestartHelps(Claim):
    """Restarting the learning rate after the longest initial deficit improves quality."""

    gain: Interval
    """Against holding the learning rate through the deficit."""
    gap: Interval
    """Of the held arm to the control."""
    remaining: Interval
    """Of the restarted arm to the control."""


@dataclass(frozen=True)
class LaterHurtsLess(Claim):
    """A deficit of the same length hurts less if it comes later."""

    arm: Arm
    slope: Interval
    """Change of quality per normal run that the deficit is moved, against the control."""
