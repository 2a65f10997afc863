"""What the statistics of a study say: plain values, made by ``bitcycle._study.statistics``, shown by the report.

Quality is the test metric; where a lower metric is better, differences are turned so that positive is better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bitcycle.experiments.run_config import RunConfig


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its standard error and a 95 % bootstrap interval; all three NaN for a single seed."""

    mean: float
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """A setting against the baseline, paired over the seeds they share."""

    difference: Estimate
    """Positive: the setting is better than the baseline."""
    pairs: int
    p: float
    """Two-sided paired t test; NaN with fewer than two pairs."""
    corrected: float
    """The same after Holm's correction for all settings of the question."""
    verdict: str
    """``better``, ``worse``, ``no difference shown`` (corrected p at 5 %), ``too few seeds``, or ``diverged`` where the
    metric of a run is not a finite number."""


@dataclass(frozen=True)
class Setting:
    """All runs of one schedule."""

    run: RunConfig
    """With the seed left out (0)."""
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
    """Cost over that of the baseline."""
    seconds: float
    on_front: bool
    """No other setting costs no more, is no worse in the mean, and is ahead in one of the two."""
    against: Comparison | None
    """None for the baseline itself, and where there is none."""


@dataclass(frozen=True)
class Correlation:
    """Of quality (positive is better) with cost."""

    kind: str
    """``Pearson`` or ``Spearman``."""
    over: str
    """``settings`` (their means) or ``runs``."""
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
    """By what part the dearest of the labels costs more than the cheapest."""


@dataclass(frozen=True)
class Claim:
    """A sentence worded by what the intervals allow."""

    text: str
    verdict: str
    """``supported``, ``contradicted`` or ``open``."""


@dataclass(frozen=True)
class Analysis:
    """Everything about one question: a task with its model, data and length of training."""

    question: RunConfig
    title: str
    metric: str
    higher_is_better: bool
    baseline: str | None
    """The label of static q_max."""
    settings: list[Setting]
    """By cost, the cheapest first."""
    correlations: list[Correlation]
    """Over the schedules and static baselines; full precision is left out, its cost being of another kind."""
    equal_cost: EqualCost | None
    claims: list[Claim]
    advice: list[str]
    """What it means for the reader's choice: sentences."""


@dataclass(frozen=True)
class DeficitPoint:
    """The runs of one arm of a deficit experiment at one length or position."""

    place: int
    """Steps of the deficit, or the step at which it begins."""
    share: float
    """The same in normal trainings."""
    arm: str
    """``held``, ``restarted`` or ``longer`` (the control without a deficit)."""
    quality: Estimate
    qualities: dict[int, float]
    """The test metric by seed."""
    loss: Comparison | None
    """Against the control of the same length or position, positive is better; None for the control itself."""
    runs: tuple[RunConfig, ...]
    """The finished ones, by seed."""


@dataclass(frozen=True)
class DeficitAnalysis:
    """Both deficit experiments on one task."""

    task: str
    title: str
    metric: str
    higher_is_better: bool
    bits: tuple[int, int]
    steps: int
    """Of a normal training."""
    window: int
    """Steps of the sliding window."""
    seeds: int
    lengths: list[DeficitPoint]
    """By arm, then by length; empty without that experiment."""
    positions: list[DeficitPoint]
    """By arm, then by position; empty without that experiment."""
    claims: list[Claim]
    recovery: str = "rest"
    """What follows the sliding window: the ``rest`` of a normal training, or a ``whole`` one."""
