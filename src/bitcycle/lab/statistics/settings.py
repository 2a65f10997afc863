"""Records gathered into settings, each with its label, its numbers and its comparison with the baseline.

Labels are short, and unique within a comparison group:

| setting                                | label                                              |
|----------------------------------------|----------------------------------------------------|
| ``static:8``, ``static:5.62``, ``full``| ``static 8``, ``static 5.62``, ``full``            |
| ``CR:3-8:cycles=8``                    | ``CR``                                             |
| ``RR:3-8:cycles=8:constant=0.5``       | ``RR constant=0.5``                                |
| any other schedule                     | its spec                                           |
| weights, activations or strength apart | ``static 4 A static:8 strength linear-rise``       |

Bits, cycles and gradients are part of a label where they are not the most common ones, and learning rates and grids
where settings differ in them: ``CR 3-6 n=2 restart@100 mx gradients 6``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from bitcycle.lab.judging import MAX_METRIC, non_inferiority, significant
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import Condition
from bitcycle.lab.schedule_summary import EARLY
from bitcycle.lab.statistics.analysis import Comparison, Setting
from bitcycle.lab.statistics.estimates import compare, corrected, estimate
from bitcycle.schedules import Constant, Cyclic, Mixed, Schedule, schedule
from bitcycle.schedules.base import Bits
from bitcycle.schedules.operands import OperandSchedules

Records = dict[int, RunResult]
"""The records of one setting, by seed."""


def quality_of(record: RunResult) -> float:
    """Return the metric on the test set; infinity if it is beyond MAX_METRIC, because such a run has diverged."""
    return math.copysign(math.inf, record.test) if abs(record.test) > MAX_METRIC else record.test


def by_condition(records: Iterable[RunResult]) -> dict[Condition, Records]:
    """Arrange the records of one group by condition and seed, in an order that does not depend on theirs."""
    groups: dict[Condition, Records] = {}
    for record in records:
        if groups.setdefault(record.run.condition, {}).setdefault(record.run.seed, record) is not record:
            raise ValueError(f"there are two results for the run {record.run.schedule} with seed {record.run.seed}")
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
    """Return the settings with all their numbers, the cheapest first; ``sign`` is -1 where a lower metric is better."""
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
        s = schedule_of(condition)
        constant = isinstance(s, (Constant, Mixed)) and not condition.has_overrides
        one_schedule = s is not None and not constant and not condition.has_overrides
        fixed_backward = condition.backward_bits if isinstance(condition.backward_bits, int) else "max"
        values = qualities[condition]
        settings.append(
            Setting(
                condition=condition,
                label=label,
                group=s.group(condition.steps, fixed_backward) if s and one_schedule else None,
                baseline=constant,
                mean_bits=_mean_bits(condition),
                early_bits=_mean_bits(condition, EARLY),
                qualities=values,
                quality=estimates[condition],
                bitops=bitops[condition],
                relative_cost=bitops[condition] / unit if unit else math.nan,
                seconds=fmean(record.seconds for record in groups[condition].values()),
                on_front=in_front,
                against=against.get(condition),
                acceptable=None
                if baseline is None or condition == baseline
                else non_inferiority(values, qualities[baseline], margin=margin, higher_is_better=sign > 0),
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


def schedule_of(condition: Condition) -> Schedule | None:
    """Return the schedule of a condition, or None for a user's function that is not known in this process."""
    try:
        return schedule(condition.schedule)
    except ValueError:
        if "call:" in condition.schedule:
            return None
        raise


def schedules_of(condition: Condition) -> OperandSchedules | None:
    """Return the schedules of all operands, or None if a user's function in them is not known in this process."""
    try:
        return condition.schedules
    except ValueError:
        if any("call:" in str(spec) for spec in (*condition.operands.values(), condition.backward_bits)):
            return None
        raise


def gradient_bits(condition: Condition) -> Bits | str:
    """Return the bits of a run's gradients: given, or the largest of its schedule; ``max`` if that is not known.

    >>> from bitcycle.lab.runs.run_config import RunConfig
    >>> gradient_bits(RunConfig("graph", "CR:3-8", 150).condition)
    8
    >>> gradient_bits(RunConfig("graph", "CR:3-8", 150, backward_bits=6).condition)
    6
    """
    schedules = schedules_of(condition)
    return (
        condition.backward_bits
        if condition.backward_bits != "max" or schedules is None
        else schedules.largest(condition.steps)
    )


def labels(settings: Sequence[Condition]) -> list[str]:
    """Return one label for each setting of a comparison group.

    >>> specs = ["static:8", "CR:3-8", "CT:3-8", "CR:3-8:cycles=2", "delay(0.5, LR:3-8:cycles=4)"]
    >>> from bitcycle.lab.runs.run_config import RunConfig
    >>> labels([RunConfig("graph", spec, 150).condition for spec in specs])
    ['static 8', 'CR', 'CT', 'CR n=2', 'delay(0.5, LR:3-8:cycles=4)']
    """
    schedules = [schedule_of(condition) for condition in settings]
    quantized = [condition for condition, s in zip(settings, schedules, strict=True) if s != Constant(None)]
    cyclic = [s for s in schedules if isinstance(s, Cyclic)]
    usual_bits, usual_cycles = _usual(map(_bits, cyclic)), _usual(_cycles(s) for s in cyclic if _cycles(s))
    usual_gradients = _usual(map(gradient_bits, quantized))
    several_rates = len({condition.learning_rate for condition in settings}) > 1
    several_grids = len({condition.grid for condition in quantized}) > 1
    short = []
    for condition, s in zip(settings, schedules, strict=True):
        parts = [_name(condition, s)]
        if isinstance(s, Cyclic):
            parts += [_bits(s)] if [_bits(s)] != usual_bits else []
            parts += [_cycles(s)] if [_cycles(s)] != usual_cycles else []
            parts += [f"{key}={value:g}" for key, value in s.profile.changed().items()]
        overrides = {"W": condition.weights, "A": condition.activations, "strength": condition.strength}
        parts += [f"{name} {spec}" for name, spec in overrides.items() if spec]
        parts += [condition.learning_rate] if several_rates else []
        if s != Constant(None):  # full precision has no grid
            parts += [condition.grid] if several_grids else []
            width = gradient_bits(condition)
            unusual = condition.backward_bits != "max" and [width] != usual_gradients
            parts += [f"gradients {'full' if width is None else width}"] if unusual else []
        short.append(" ".join(part for part in parts if part))
    counts = Counter(short)  # one schedule spelt in two ways has one label: the name of the run is added
    return [
        label if counts[label] == 1 else f"{label} ({condition.name})"
        for label, condition in zip(short, settings, strict=True)
    ]


def _usual(values: Iterable[object]) -> list[object]:
    """Return the most common value, or several if they are equally common."""
    counts = Counter(values)
    return [value for value, count in counts.items() if count == max(counts.values())]


def _name(condition: Condition, s: Schedule | None) -> str:
    if isinstance(s, (Constant, Mixed)):
        return "full" if s.bits is None else f"static {s.bits}"
    if isinstance(s, Cyclic):
        return str(s).partition(":")[0]
    return condition.schedule if s is None else str(s)


def _bits(s: Cyclic) -> str:
    return f"{s.q_min}-{s.q_max}"


def _cycles(s: Cyclic) -> str:
    return "" if s.shape.startswith("fall") else f"n={s.cycles}"
