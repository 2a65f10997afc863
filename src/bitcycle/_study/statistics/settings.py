"""Records gathered into settings, each with its figures and its place beside the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import fmean

from bitcycle._study.analysis import Comparison, Setting
from bitcycle._study.statistics.comparisons import compare, corrected
from bitcycle._study.statistics.estimates import estimate
from bitcycle._study.statistics.front import on_front
from bitcycle._study.statistics.labels import labels
from bitcycle._study.statistics.reading import gradient_bits, schedule_of
from bitcycle.experiments.result import RunResult
from bitcycle.experiments.run_config import RunConfig
from bitcycle.schedules import Constant
from bitcycle.schedules.comparison import EARLY

Records = dict[int, RunResult]
"""Of one setting, by seed."""


def by_setting(records: Iterable[RunResult]) -> dict[RunConfig, Records]:
    """Records of one question by setting and seed, in an order that does not depend on theirs."""
    found: dict[RunConfig, Records] = {}
    for record in records:
        of_setting = found.setdefault(record.run.setting, {})
        twin = of_setting.setdefault(record.run.seed, record)
        if not _same(twin, record):
            raise ValueError(
                f"the run {record.run.schedule} with seed {record.run.seed} is there twice, with different results: "
                f"{twin.metric} {twin.test:g} and {record.metric} {record.test:g}"
            )
    return {
        run: dict(sorted(of_setting.items()))
        for run, of_setting in sorted(found.items(), key=lambda item: _place(*item))
    }


def baseline_of(settings: Iterable[RunConfig]) -> RunConfig | None:
    """The setting that others are compared with: the widest static one, else full precision, else none.

    Of several, the one with the task's own learning rate and gradients on the same bits is taken.

    >>> runs = [RunConfig("graph", spec, 150) for spec in ("full", "static:3", "CR:3-8:cycles=8", "static:8")]
    >>> baseline_of(runs).schedule, baseline_of(runs[:1]).schedule, baseline_of(runs[2:3])
    ('static:8', 'full', None)
    """
    constant = [(run, s) for run in settings if isinstance(s := schedule_of(run), Constant)]
    if not constant:
        return None
    return max(
        constant,
        key=lambda pair: (pair[1].bits or 0, not pair[0].learning_rate, gradient_bits(pair[0]) == pair[1].bits),
    )[0]


def describe(found: Mapping[RunConfig, Records], baseline: RunConfig | None, sign: int) -> list[Setting]:
    """The settings with all their figures, the cheapest first; ``sign`` is -1 where a lower metric is better."""
    runs = list(found)
    qualities = [{seed: record.test for seed, record in found[run].items()} for run in runs]
    estimates = [estimate(of_setting.values()) for of_setting in qualities]
    bitops = [fmean(record.bitops for record in found[run].values()) for run in runs]
    front = on_front(bitops, [sign * quality.mean for quality in estimates])
    unit = math.nan if baseline is None else bitops[runs.index(baseline)]
    against = _against(dict(zip(runs, qualities, strict=True)), baseline, sign)
    settings = []
    for i, (run, label) in enumerate(zip(runs, labels(runs), strict=True)):
        schedule = schedule_of(run)
        constant = isinstance(schedule, Constant)
        settings.append(
            Setting(
                run=run,
                label=label,
                group=None if schedule is None or constant else schedule.group(run.steps, run.backward_bits),
                baseline=constant,
                mean_bits=schedule.mean_bits(run.steps) if schedule else math.nan,
                early_bits=schedule.mean_bits(run.steps, EARLY) if schedule else math.nan,
                qualities=qualities[i],
                quality=estimates[i],
                bitops=bitops[i],
                relative_cost=bitops[i] / unit if unit else math.nan,
                seconds=fmean(record.seconds for record in found[run].values()),
                on_front=front[i],
                against=against.get(run),
            )
        )
    return settings


def _against(
    qualities: Mapping[RunConfig, Mapping[int, float]], baseline: RunConfig | None, sign: int
) -> dict[RunConfig, Comparison]:
    if baseline is None:
        return {}
    others = [run for run in qualities if run != baseline]
    comparisons = corrected([compare(qualities[run], qualities[baseline], sign) for run in others])
    return dict(zip(others, comparisons, strict=True))


def _place(run: RunConfig, records: Records) -> tuple[float, str, str]:
    """Where a setting stands: by cost, and among equals in some fixed order."""
    return fmean(record.bitops for record in records.values()), run.schedule, run.name


def _same(one: RunResult, other: RunResult) -> bool:
    """Whether two records tell the same, where NaN is the same as NaN."""
    same_metric = one.test == other.test or (math.isnan(one.test) and math.isnan(other.test))
    return same_metric and one.bitops == other.bitops
