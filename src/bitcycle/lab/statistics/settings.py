"""Records gathered into settings, each with its numbers and its comparison with the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from bitcycle.lab.judging import MAX_METRIC, non_inferiority, significant
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import Condition
from bitcycle.lab.statistics.analysis import Comparison, Setting
from bitcycle.lab.statistics.bootstrap import estimate
from bitcycle.lab.statistics.comparisons import compare, corrected
from bitcycle.lab.statistics.labels import gradient_bits, labels, schedule_of, schedules_of
from bitcycle.schedules import Constant, Mixed
from bitcycle.schedules.operands import EARLY

Records = dict[int, RunResult]
"""The records of one setting, by seed."""


def quality_of(record: RunResult) -> float:
    """Return the metric on the test set; infinity if it is beyond MAX_METRIC, because such a run has diverged."""
    return math.copysign(math.inf, record.test) if abs(record.test) > MAX_METRIC else record.test


def by_condition(records: Iterable[RunResult]) -> dict[Condition, Records]:
    """Arrange the records of one group by condition and seed, in an order that does not depend on theirs."""
    groups: dict[Condition, Records] = {}
    for record in records:
        group = groups.setdefault(record.run.condition, {})
        twin = group.setdefault(record.run.seed, record)
        if not _same(twin, record):
            raise ValueError(
                f"two results for the run {record.run.schedule} with seed {record.run.seed}: "
                f"{twin.metric} {twin.test:g} and {record.metric} {record.test:g}"
            )
    return {
        condition: dict(sorted(group.items()))
        for condition, group in sorted(groups.items(), key=lambda item: _cost_and_name(*item))
    }


def baseline_of(settings: Iterable[Condition]) -> Condition | None:
    """Choose the setting that others are compared with: the widest static one, else full precision, else none.

    Among several, the one with integers, the task's own learning rate and with gradients at the same bits is chosen.

    >>> from bitcycle.lab.runs.run_config import RunConfig
    >>> runs = [RunConfig("graph", spec, 150).condition for spec in ("full", "static:3", "CR:3-8:cycles=8", "static:8")]
    >>> baseline_of(runs).schedule, baseline_of(runs[:1]).schedule, baseline_of(runs[2:3])
    ('static:8', 'full', None)
    """
    constant = [
        (condition, s)
        for condition in settings
        if isinstance(s := schedule_of(condition), Constant) and not condition.has_overrides
    ]
    if not constant:
        return None
    return max(
        constant,
        key=lambda pair: (
            pair[1].bits or 0,
            pair[0].grid == "integer",
            not pair[0].learning_rate,
            gradient_bits(pair[0]) == pair[1].bits,
        ),
    )[0]


def describe(
    groups: Mapping[Condition, Records], baseline: Condition | None, sign: int, margin: float | None
) -> list[Setting]:
    """Return the settings with all their numbers, the cheapest first.

    Args:
        groups: Records by setting and seed.
        baseline: The setting that the others are compared with.
        sign: -1 where a lower metric is better.
        margin: The acceptable loss; see :func:`~bitcycle.lab.judging.non_inferiority`.
    """
    qualities = {
        condition: {seed: quality_of(record) for seed, record in group.items()} for condition, group in groups.items()
    }
    estimates = {condition: estimate(of_run.values()) for condition, of_run in qualities.items()}
    bitops = {condition: fmean(record.bitops for record in group.values()) for condition, group in groups.items()}
    front = on_front(list(bitops.values()), [sign * each.mean for each in estimates.values()])
    unit = math.nan if baseline is None else bitops[baseline]
    against = _against(qualities, baseline, sign)
    settings = []
    for condition, label, in_front in zip(groups, labels(list(groups)), front, strict=True):
        schedule = schedule_of(condition)
        constant = isinstance(schedule, (Constant, Mixed)) and not condition.has_overrides
        one_schedule = schedule is not None and not constant and not condition.has_overrides
        fixed_backward = condition.backward_bits if isinstance(condition.backward_bits, int) else "max"
        settings.append(
            Setting(
                condition=condition,
                label=label,
                group=schedule.group(condition.steps, fixed_backward) if schedule and one_schedule else None,
                baseline=constant,
                mean_bits=_mean_bits(condition),
                early_bits=_mean_bits(condition, EARLY),
                qualities=qualities[condition],
                quality=estimates[condition],
                bitops=bitops[condition],
                relative_cost=bitops[condition] / unit if unit else math.nan,
                seconds=fmean(record.seconds for record in groups[condition].values()),
                on_front=in_front,
                against=against.get(condition),
                acceptable=None
                if baseline in (None, condition)
                else non_inferiority(
                    qualities[condition], qualities[baseline], margin=margin, higher_is_better=sign > 0
                ),
            )
        )
    return settings


def correlated(settings: Iterable[Setting]) -> list[Setting]:
    """Return the settings whose quality is related to their cost: without full precision and those that diverged."""
    return [s for s in settings if math.isfinite(s.quality.mean) and schedule_of(s.condition) != Constant(None)]


def _mean_bits(condition: Condition, first: float = 1.0) -> float:
    """Return the mean bits of weights and activations; NaN for a user's function that is not known here."""
    schedules = schedules_of(condition)
    if schedules is None:
        return math.nan
    return fmean(each.mean_bits(condition.steps, first) for each in (schedules.weights, schedules.activations))


def on_front(costs: Sequence[float], qualities: Sequence[float]) -> list[bool]:
    """Say which settings are on the Pareto front of cost and quality; a higher quality is better.

    One setting dominates another if it costs no more, is no worse, and is ahead in one of the two. A setting without
    a finite cost and quality is not on the front and dominates nothing.

    >>> on_front([1, 2, 3, 3], [0.8, 0.9, 0.9, float("nan")])
    [True, True, False, False]
    """
    cost, quality = significant(costs), significant(qualities)
    usable = np.isfinite(cost) & np.isfinite(quality)
    front = np.zeros(len(cost), dtype=bool)
    best = (math.inf, -math.inf)  # the last member of the front, in the order of cost
    for i in np.lexsort((-quality, cost)):
        if usable[i] and (quality[i] > best[1] or (cost[i], quality[i]) == best):
            front[i] = True
            best = (cost[i], quality[i])
    return front.tolist()


def _against(
    qualities: Mapping[Condition, Mapping[int, float]], baseline: Condition | None, sign: int
) -> dict[Condition, Comparison]:
    if baseline is None:
        return {}
    others = [condition for condition in qualities if condition != baseline]
    comparisons = corrected([compare(qualities[condition], qualities[baseline], sign) for condition in others])
    return dict(zip(others, comparisons, strict=True))


def _cost_and_name(condition: Condition, records: Records) -> tuple[float, str, str]:
    """The key that settings are ordered by: cost first, then a fixed order."""
    return fmean(record.bitops for record in records.values()), condition.schedule, condition.name


def _same(one: RunResult, other: RunResult) -> bool:
    """Whether two records agree, where NaN equals NaN."""
    same_metric = one.test == other.test or (math.isnan(one.test) and math.isnan(other.test))
    return same_metric and one.bitops == other.bitops
