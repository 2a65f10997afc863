"""The results of a study's statistics as plain values; ``bitcycle.lab.report.words`` puts them into words.

Quality is the metric on the test set. Differences are signed so that positive is better, also where a lower metric is
better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from bitcycle.lab.judging import NonInferiority
from bitcycle.lab.runs.run_config import ComparisonGroup, Condition, RunConfig
from bitcycle.lab.studies.deficits import Arm

ENOUGH_SEEDS = 5
"""The fewest from which an interval can cover more than 90 %."""


class Verdict(StrEnum):
    """What the runs say about a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    OPEN = "open"


class Outcome(StrEnum):
    """The outcome of a comparison, by the corrected p-value at 5 %."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no significant difference"
    TOO_FEW_SEEDS = "too few seeds"
    DIVERGED = "diverged"
    """The metric of a run is not a finite number."""


class OpenReason(StrEnum):
    """Why a claim is open."""

    INCLUDES_ZERO = "the interval includes zero"
    BEYOND_MARGIN = "a loss beyond the margin is not excluded"
    NOT_SIGNIFICANT = "no significant difference"
    ONE_SETTING = "there is only one setting"
    EQUAL_QUALITY = "every run has the same quality"
    EQUAL_MEANS = "all settings have the same mean quality"
    EQUAL_COST = "all settings cost the same"
    FEW_COSTS = "the settings have too few different costs"
    FEW_SETTINGS = "there are too few settings for an interval"
    TOO_FEW_SEEDS = "too few seeds"
    DIVERGED = "runs diverged"
    BASELINE_DIVERGED = "runs of the baseline diverged"
    CONFLICTING = "some comparisons are better and others worse"


class Over(StrEnum):
    """What a correlation is taken over."""

    SETTINGS = "settings"
    """The means of the settings."""
    RUNS = "runs"


class Role(StrEnum):
    """What a setting is recommended for."""

    LOWEST_COST = "lowest cost"
    BALANCE = "balance"
    BEST_QUALITY = "best quality"
    ONLY_CHOICE = "only choice"


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, its standard error and a 95 % interval; NaN except for the mean with one seed.

    The interval is that of the bootstrap, except for the effect of a claim, where it is that of Student's t.
    """

    mean: float
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """A setting against the baseline, paired over the seeds that both share."""

    difference: Estimate
    """Positive: the setting is better than the baseline; NaN if a run of the two diverged."""
    pairs: int
    p: float
    """Two-sided paired t test; NaN with fewer than two pairs, and if a run of the two diverged."""
    corrected: float
    """The same with Holm's correction for all settings of the group."""
    outcome: Outcome


@dataclass(frozen=True)
class Setting:
    """All runs of one schedule."""

    condition: Condition
    label: str
    """A short name, unique in the study: ``CR``, ``static 8``, ``full``; with bits or cycles where those differ."""
    group: str | None
    """``large``, ``medium``, ``small`` saving; None for baselines."""
    baseline: bool
    """Whether it is static or full precision throughout."""
    mean_bits: float
    early_bits: float
    """Mean over the first tenth of training."""
    qualities: dict[int, float]
    """The test metric by seed."""
    quality: Estimate
    bitops: float
    """Mean cost."""
    relative_cost: float
    """Cost divided by the cost of the baseline."""
    seconds: float
    on_front: bool
    """Whether no other setting is at least as cheap and at least as good, and ahead in one of the two."""
    against: Comparison | None
    """Two-sided comparison with the baseline; None for the baseline itself, and if there is no baseline."""
    acceptable: NonInferiority | None = None
    """Whether it is as good as the baseline, within the margin; None where ``against`` is."""

    @property
    def diverged(self) -> int:
        """The number of runs whose metric is not a finite number."""
        return sum(not math.isfinite(value) for value in self.qualities.values())


@dataclass(frozen=True)
class Correlation:
    """Spearman's correlation of quality (positive is better) with cost."""

    over: Over
    value: float
    low: float
    high: float
    """95 % bootstrap interval."""
    count: int


@dataclass(frozen=True)
class EqualCost:
    """Do schedules of equal cost differ by the precision they spend early? (PAPER: RTV > CT, LT > LR, CR > ETV)."""

    labels: list[str]
    """The medium group, from most early precision to least."""
    spearman: Correlation
    """Of early bits with quality."""
    p: float
    """Page's trend test over seeds, one-sided: quality falls along the labels."""
    pairs: list[tuple[str, str, Comparison]]
    """RTH with RR, ETH with ER: the first starts high, the second low."""
    reversed_p: float = math.nan
    """Page's test of the opposite order: quality rises along the labels."""
    spread: float = math.nan
    """How much more the most expensive of the labels costs than the cheapest, as a share."""


class ClaimKind(StrEnum):
    """What a study can claim."""

    QUALITY_FOLLOWS_COST = "quality follows cost"
    """Both intervals of Spearman's correlation of quality with cost, over settings and over runs, lie above zero."""
    SCHEDULES_BEAT_BASELINE = "schedules beat the baseline"
    """Some schedule is significantly better than the baseline."""
    CHEAPEST_ACCEPTABLE = "cheapest acceptable"
    """Some cheaper setting is as good as the baseline, within the margin."""
    EARLY_PRECISION = "early precision"
    """At equal cost, quality rises with the bits of the first tenth of training."""
    HIGH_START = "high start"
    """In pairs of equal cost, the schedule that starts at high precision is better."""
    PRECISION_MATTERS = "precision matters"
    """The lowest static bit-width is worse than the baseline."""
    DIVERGED_RUNS = "diverged runs"
    """Some runs ended with a metric that is not a finite number."""
    FEW_SEEDS = "few seeds"
    """Some settings have fewer than :data:`ENOUGH_SEEDS` seeds."""
    GROWING_DAMAGE = "growing damage"
    """Quality falls with the length of an initial deficit; the effect is the slope per normal run of deficit."""
    LASTING_DAMAGE = "lasting damage"
    """After the longest initial deficit, a whole normal run does not make up for it."""
    RESTART_HELPS = "restart helps"
    """Restarting the learning rate after the longest initial deficit improves quality."""
    LATER_HURTS_LESS = "later hurts less"
    """A deficit of the same length hurts less if it comes later; the effect is the slope per normal run."""


@dataclass(frozen=True)
class Claim:
    """A statement that the runs support, contradict or leave open. Its numbers are in the analysis."""

    kind: ClaimKind
    verdict: Verdict
    reasons: tuple[OpenReason, ...] = ()
    """Why the verdict is open; empty otherwise."""
    about: str | None = None
    """The label of the setting, or the arm, that the claim is about."""
    place: int | None = None
    """The length of the deficit that the claim is about, in steps."""
    effect: Estimate | None = None
    """Of a deficit on quality, in comparison with the control."""


@dataclass(frozen=True)
class Analysis:
    """Everything about one group of comparable runs: a task with its model, data and length of training."""

    comparison_group: ComparisonGroup
    title: str
    metric: str
    higher_is_better: bool
    baseline: str | None
    """The label of static q_max."""
    settings: list[Setting]
    """By cost, the cheapest first."""
    correlations: list[Correlation]
    """Over the schedules and static baselines; without full precision, whose cost is of another kind."""
    equal_cost: EqualCost | None
    claims: list[Claim]
    advice: dict[Role, str]
    """The label of the setting for each role; empty if every setting diverged."""

    def setting(self, label: str | None) -> Setting | None:
        """Return the setting of a label, or None."""
        return next((setting for setting in self.settings if setting.label == label), None)

    def correlation(self, over: Over) -> Correlation:
        """Return the correlation over settings or over runs."""
        return next(found for found in self.correlations if found.over == over)

    @property
    def cheaper(self) -> list[Setting]:
        """The settings that cost less than the baseline."""
        return [setting for setting in self.settings if setting.relative_cost < 1]

    @property
    def cheapest_acceptable(self) -> Setting | None:
        """The cheapest setting that costs less than the baseline and is as good, within the margin."""
        return next((s for s in self.cheaper if s.acceptable is not None and s.acceptable.accepted), None)


@dataclass(frozen=True)
class DeficitPoint:
    """The runs of one arm of a deficit experiment at one length or position."""

    place: int
    """Steps of the deficit, or the step at which it begins."""
    share: float
    """The same as a share of a normal run."""
    arm: Arm
    quality: Estimate
    qualities: dict[int, float]
    """The test metric by seed."""
    loss: Comparison | None
    """Against the control of the same length or position, positive is better; None for the control itself."""
    runs: tuple[RunConfig, ...]
    """The finished runs, by seed."""


@dataclass(frozen=True)
class DeficitAnalysis:
    """Both deficit experiments on one task."""

    task: str
    title: str
    metric: str
    higher_is_better: bool
    bits: tuple[int, int]
    steps: int
    """Of a normal run."""
    window: int
    """Steps of the sliding window."""
    seeds: int
    lengths: list[DeficitPoint]
    """By arm, then by length; empty without that experiment."""
    positions: list[DeficitPoint]
    """By arm, then by position; empty without that experiment."""
    claims: list[Claim]
    recovery: str = "rest"
    """What follows the sliding window: the ``rest`` of a normal run, or a ``whole`` one."""
