"""Records gathered into settings, each with its numbers and its comparison with the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from bitcycle._study.analysis import Comparison, Setting
from bitcycle._study.statistics.bootstrap import estimate
from bitcycle._study.statistics.comparisons import compare, corrected
from bitcycle._study.statistics.labels import gradient_bits, labels, moves_apart, moves_of, schedule_of
from bitcycle._support.rounding import significant
from bitcycle.advice.non_inferiority import non_inferiority
from bitcycle.experiments.result import RunResult
from bitcycle.experiments.run_config import RunConfig
from bitcycle.schedules import Constant, Mixed
from bitcycle.schedules.comparison import EARLY

Records = dict[int, RunResult]
"""The records of one setting, by seed."""


def by_setting(records: Iterable[RunResult]) -> dict[RunConfig, Records]:
    """Group the records of one question by setting and seed, in an order that does not depend on theirs."""
    groups: dict[RunConfig, Records] = {}
    for record in records:
        group = groups.setdefault(record.run.setting, {})
        twin = group.setdefault(record.run.seed, record)
        if not _same(twin, record):
            raise ValueError(
                f"two results for the run {record.run.schedule} with seed {record.run.seed}: "
                f"{twin.metric} {twin.test:g} and {record.metric} {record.test:g}"
            )
    return {
        run: dict(sorted(group.items()))
        for run, group in sorted(groups.items(), key=lambda item: _cost_and_name(*item))
    }


def baseline_of(settings: Iterable[RunConfig]) -> RunConfig | None:
    """Choose the setting that others are compared with: the widest static one, else full precision, else none.

    Among several, the one with integers, the task's own learning rate and with gradients at the same bits is chosen.

    >>> runs = [RunConfig("graph", spec, 150) for spec in ("full", "static:3", "CR:3-8:cycles=8", "static:8")]
    >>> baseline_of(runs).schedule, baseline_of(runs[:1]).schedule, baseline_of(runs[2:3])
    ('static:8', 'full', None)
    """
    constant = [(run, s) for run in settings if isinstance(s := schedule_of(run), Constant) and not moves_apart(run)]
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
    groups: Mapping[RunConfig, Records], baseline: RunConfig | None, sign: int, margin: float | None
) -> list[Setting]:
    """Return the settings with all their numbers, the cheapest first.

    Args:
        groups: Records by setting and seed.
        baseline: The setting that the others are compared with.
        sign: -1 where a lower metric is better.
        margin: The acceptable loss; see :func:`~bitcycle.advice.non_inferiority.non_inferiority`.
    """
    qualities = {run: {seed: record.test for seed, record in group.items()} for run, group in groups.items()}
    estimates = {run: estimate(of_run.values()) for run, of_run in qualities.items()}
    bitops = {run: fmean(record.bitops for record in group.values()) for run, group in groups.items()}
    front = on_front(list(bitops.values()), [sign * each.mean for each in estimates.values()])
    unit = math.nan if baseline is None else bitops[baseline]
    against = _against(qualities, baseline, sign)
    settings = []
    for run, label, in_front in zip(groups, labels(list(groups)), front, strict=True):
        schedule = schedule_of(run)
        constant = isinstance(schedule, (Constant, Mixed)) and not moves_apart(run)
        one_schedule = schedule is not None and not constant and not moves_apart(run)
        fixed_backward = run.backward_bits if isinstance(run.backward_bits, int) else "max"
        settings.append(
            Setting(
                run=run,
                label=label,
                group=schedule.group(run.steps, fixed_backward) if schedule and one_schedule else None,
                baseline=constant,
                mean_bits=_mean_bits(run),
                early_bits=_mean_bits(run, EARLY),
                qualities=qualities[run],
                quality=estimates[run],
                bitops=bitops[run],
                relative_cost=bitops[run] / unit if unit else math.nan,
                seconds=fmean(record.seconds for record in groups[run].values()),
                on_front=in_front,
                against=against.get(run),
                acceptable=None
                if baseline in (None, run)
                else non_inferiority(qualities[run], qualities[baseline], margin=margin, higher_is_better=sign > 0),
            )
        )
    return settings


def correlated(settings: Iterable[Setting]) -> list[Setting]:
    """Return the settings whose quality is related to their cost: without full precision and those that diverged."""
    return [s for s in settings if math.isfinite(s.quality.mean) and schedule_of(s.run) != Constant(None)]


def _mean_bits(run: RunConfig, first: float = 1.0) -> float:
    """Return the mean bits of weights and activations; NaN for a user's function that is not known here."""
    moves = moves_of(run)
    if moves is None:
        return math.nan
    return fmean(own.mean_bits(run.steps, first) for own in (moves.weights, moves.activations))


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
    qualities: Mapping[RunConfig, Mapping[int, float]], baseline: RunConfig | None, sign: int
) -> dict[RunConfig, Comparison]:
    if baseline is None:
        return {}
    others = [run for run in qualities if run != baseline]
    comparisons = corrected([compare(qualities[run], qualities[baseline], sign) for run in others])
    return dict(zip(others, comparisons, strict=True))


def _cost_and_name(run: RunConfig, records: Records) -> tuple[float, str, str]:
    """The key that settings are ordered by: cost first, then a fixed order."""
    return fmean(record.bitops for record in records.values()), run.schedule, run.name


def _same(one: RunResult, other: RunResult) -> bool:
    """Whether two records agree, where NaN equals NaN."""
    same_metric = one.test == other.test or (math.isnan(one.test) and math.isnan(other.test))
    return same_metric and one.bitops == other.bitops
