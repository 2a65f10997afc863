"""Is a setting worse than the baseline? Runs of both, paired over seeds.

Every setting is paired with the baseline over the seeds they share. With the differences ``d`` of quality over ``n``
seeds, ``t = mean(d) / (sd(d) / sqrt(n))`` has ``n - 1`` degrees of freedom, and ``p = P(T <= t)`` is the probability of
so bad a result if the setting were as good. There is no correction for the number of settings: it would guard against a
wrong "worse", and let pass the more cheap settings the more were tried. Nor is the test enough by itself, which lets
pass the more the fewer the seeds and the larger their noise: a setting holds if, besides, its mean loss is no more than
the standard deviation of the baseline over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Protocol

from bitcycle._support.extras import need
from bitcycle.schedules import Schedule, schedule

LEVEL = 0.05
FEWEST_SEEDS = 3


class Record(Protocol):
    """What advice needs to know of a run; all records are of one task."""

    @property
    def schedule(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def quality(self) -> float:
        """Higher is better."""
        ...

    @property
    def cost(self) -> float: ...


@dataclass(frozen=True)
class Comparison:
    """One setting against the baseline, over the seeds that both have."""

    schedule: Schedule
    seeds: int
    cost: float
    saving: float
    difference: float
    """Of mean quality: below 0 is worse than the baseline."""
    lost_at_most: float
    """With 95 % confidence the loss of quality is no more than this."""
    p: float
    """Of so bad a result if it were as good; 1 where there are too few seeds."""
    scatter: float
    """The standard deviation of the baseline's quality over the seeds."""

    @property
    def told(self) -> bool:
        """Whether there are seeds enough to tell."""
        return self.seeds >= FEWEST_SEEDS

    @property
    def worse(self) -> bool:
        return self.told and self.p < LEVEL

    @property
    def holds(self) -> bool:
        """Neither significantly worse, nor by more than seeds differ."""
        return self.told and not self.worse and -self.difference <= self.scatter

    def __str__(self) -> str:
        if not self.told:
            return (
                f"not known to be as good: it shares {self.seeds} seeds with the baseline, of at least {FEWEST_SEEDS}"
            )
        if math.isnan(self.difference):
            return "worse than the baseline: some of its runs failed (their quality is not a number)"
        verdict = "significantly worse than" if self.worse else "not significantly worse than"
        beyond = (
            f", more than the {self.scatter:.4g} by which its seeds scatter" if not (self.worse or self.holds) else ""
        )
        return (
            f"{verdict} the baseline over {self.seeds} seeds: quality {self.difference:+.4g}{beyond}, "
            f"p = {self.p:.3f}; a loss of more than {self.lost_at_most:.4g} is excluded with 95 % confidence"
        )


def compare_with(baseline: Schedule, records: Iterable[Record]) -> list[Comparison]:
    """Every recorded setting, the baseline itself among them, against the baseline."""
    runs = _by_setting(records)
    base = runs.get(baseline)
    if base is None:
        known = ", ".join(map(str, runs)) or "none at all"
        raise ValueError(f"the records hold no run of the baseline {baseline} to compare with; they hold {known}")
    if len(base) < FEWEST_SEEDS:
        raise ValueError(f"{len(base)} seeds of the baseline {baseline} tell nothing: it needs {FEWEST_SEEDS} or more")
    rest = [_compare(setting, found, base) for setting, found in runs.items() if setting != baseline]
    cost = fmean(run.cost for run in base.values())
    return [Comparison(baseline, len(base), cost, 0.0, 0.0, 0.0, 1.0, _scatter(base)), *rest]


def _scatter(base: dict[int, Record]) -> float:
    qualities = [run.quality for run in base.values()]
    return stdev(qualities) if all(map(math.isfinite, qualities)) else math.nan


def _by_setting(records: Iterable[Record]) -> dict[Schedule, dict[int, Record]]:
    runs: dict[Schedule, dict[int, Record]] = {}
    for record in records:
        of_setting = runs.setdefault(schedule(record.schedule), {})
        if record.seed in of_setting:
            raise ValueError(
                f"two records of {record.schedule} with seed {record.seed}: give those of one task and model alone"
            )
        of_setting[record.seed] = record
    return runs


def _compare(setting: Schedule, found: dict[int, Record], base: dict[int, Record]) -> Comparison:
    seeds = sorted(found.keys() & base.keys())
    scatter = _scatter(base)
    mine, other = [found[seed] for seed in seeds], [base[seed] for seed in seeds]
    if not seeds:
        return Comparison(
            setting, 0, fmean(run.cost for run in found.values()), math.nan, math.nan, math.nan, 1.0, scatter
        )
    cost = fmean(run.cost for run in mine)
    saving = 1 - cost / fmean(run.cost for run in other)
    differences = [a.quality - b.quality for a, b in zip(mine, other, strict=True)]
    if not all(map(math.isfinite, differences)):
        return Comparison(setting, len(seeds), cost, saving, math.nan, math.inf, 0.0, scatter)
    return Comparison(setting, len(seeds), cost, saving, fmean(differences), *_loss_and_p(differences), scatter)


def _loss_and_p(differences: Sequence[float]) -> tuple[float, float]:
    """The largest loss that 95 % confidence leaves, and the one-sided p of the paired t test."""
    n, mean = len(differences), fmean(differences)
    if n < FEWEST_SEEDS:
        return math.inf, 1.0
    t_distribution = need("scipy.stats", "study", "advice from records").t(n - 1)
    error = stdev(differences) / math.sqrt(n)
    if error == 0:
        return max(0.0, -mean), 0.0 if mean < 0 else 1.0
    return max(0.0, -mean + t_distribution.ppf(1 - LEVEL) * error), float(t_distribution.cdf(mean / error))
