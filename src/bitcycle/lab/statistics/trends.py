"""How quality follows cost, and at equal cost the precision spent early: Spearman's rank correlation, and Page's test.

Over runs, the seeds are resampled, each together with all of its runs: runs of one seed share their data and their
initial weights. The interval says what other seeds of the same settings could give.

Over settings (their means), the settings are resampled, and so are the seeds that make up their means: the interval
says what other settings, measured as noisily as these, could give. Resamples in which nothing varies are dropped.

The schedules of the medium group cost the same, but their bits in the first tenth of training differ widely. Page's
test asks whether quality follows the order of early bits for every seed: with the rank ``r`` of a schedule within a
seed, and its position ``k`` in the order of early bits, the statistic is ``L = sum k * r``. RTH with RR, and ETH with
ER, are pairs of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bitcycle._support.student_t import Floats
from bitcycle.lab.judging import NOISE, significant
from bitcycle.lab.statistics.analysis import Comparison, Correlation, EqualCost, Over, Setting
from bitcycle.lab.statistics.estimates import compare, corrected, counted, drawn, interval, stats
from bitcycle.lab.statistics.settings import gradient_bits, schedule_of
from bitcycle.schedules.base import Bits

MIN_SETTINGS = 5
"""Fewer have no interval over settings: by chance, four are in perfect order in 1 of 12 cases, five in 1 of 60."""

EQUAL = 0.05
"""Costs within 5 % of each other count as equal: the paper's are within 1.5 %, but short runs round their cycles."""

MIN_SCHEDULES = 3
"""With fewer schedules there is no order to test."""

PAIRS = (("RTH", "RR"), ("ETH", "ER"))
"""Schedules of the same cost; the first starts high, the second low."""


def arrays(*numbers: Sequence[Mapping[int, float]]) -> tuple[Floats, ...]:
    """Return numbers by seed as arrays of settings x seeds; NaN where there is no run.

    >>> arrays([{0: 5, 1: 6}, {0: 7}])[0].tolist()
    [[5.0, 6.0], [7.0, nan]]
    """
    seeds = sorted({seed for row in numbers[0] for seed in row})
    return tuple(
        np.array([[row.get(seed, math.nan) for seed in seeds] for row in rows]).reshape(len(rows), len(seeds))
        for rows in numbers
    )


def over_settings(x: Floats, y: Floats) -> Correlation:
    """Return the correlation of the means of the settings; NaN where one of the two does not vary.

    >>> cost = [{0: c, 1: c} for c in (1, 2, 3, 4, 5)]
    >>> quality = [{0: 0.5, 1: 0.6}, {0: 0.6, 1: 0.7}, {0: 0.7, 1: 0.7}, {0: 0.8, 1: 0.9}, {0: 0.9, 1: 0.95}]
    >>> found = over_settings(*arrays(cost, quality))
    >>> round(found.value, 3), found.count
    (1.0, 5)
    """
    count, seeds = y.shape
    if not count:
        return Correlation(Over.SETTINGS, math.nan, math.nan, math.nan, 0)
    once = np.ones((1, seeds))
    costs = _means(x, once)
    value = float(_of_rows(costs, _means(y, once))[0])
    low = high = math.nan
    if count >= MIN_SETTINGS and not math.isnan(value):
        resampled = [
            _of_rows(costs[0][settings], np.take_along_axis(_means(y, counts), settings, axis=1))
            for settings, counts in zip(drawn(count), counted(seeds), strict=True)
        ]
        low, high = interval(np.concatenate(resampled), count)
    return Correlation(Over.SETTINGS, value, min(low, value), max(high, value), count)


def over_runs(x: Floats, y: Floats) -> Correlation:
    """Return the correlation of single runs; NaN where one of the two numbers does not vary."""
    seeds, present = y.shape[1], ~np.isnan(y)
    x, y = significant(x[present]), significant(y[present])
    if not y.size:
        return Correlation(Over.RUNS, math.nan, math.nan, math.nan, 0)
    value = float(_weighted(x, y, np.ones((1, y.size)))[0])
    low = high = math.nan
    if seeds >= 2 and not math.isnan(value):
        seed_of_run = np.nonzero(present)[1]
        resampled = [_weighted(x, y, counts[:, seed_of_run]) for counts in counted(seeds)]
        low, high = interval(np.concatenate(resampled), seeds)
    return Correlation(Over.RUNS, value, min(low, value), max(high, value), int(y.size))


def _means(values: Floats, seed_counts: Floats) -> Floats:
    """Return the settings' means over resampled seeds, one resample per row; NaN where no seed is drawn."""
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return significant(seed_counts @ np.where(present, values, 0).T / (seed_counts @ present.T))


def _of_rows(x: Floats, y: Floats) -> Floats:
    """Return the correlation within each row; undefined where a row has an undefined mean."""
    x, y = (stats().rankdata(values, axis=1, nan_policy="propagate") for values in (x, y))
    return _pearson(x, y, np.ones_like(y))


def _weighted(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return, for every row of weights, the correlation over runs that count as often as the row says."""
    return _pearson(weighted_ranks(x, weights), weighted_ranks(y, weights), weights)


def weighted_ranks(values: Floats, weights: Floats) -> Floats:
    """Return, for every row of weights, the ranks of values that occur as often as the row says; ties share their mean.

    >>> weighted_ranks(np.array([10.0, 30.0, 20.0]), np.array([[1, 1, 1], [2, 1, 1]])).tolist()
    [[1.0, 3.0, 2.0], [1.5, 4.0, 3.0]]
    """
    _, level_of, counts = np.unique(values, return_inverse=True, return_counts=True)
    by_level = weights[:, np.argsort(level_of, kind="stable")]
    occurring = np.add.reduceat(by_level, np.cumsum(counts) - counts, axis=1)
    below = np.cumsum(occurring, axis=1) - occurring
    ranks: Floats = (below + (occurring + 1) / 2)[:, level_of]
    return ranks


def _pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return ``sum w dx dy / sqrt(sum w dx^2 * sum w dy^2)``, with deviations from weighted means, for every row."""
    total = weights.sum(axis=1, keepdims=True)
    dx, dy = (values - (weights * values).sum(axis=1, keepdims=True) / total for values in (x, y))
    sxx, syy, sxy = ((weights * product).sum(axis=1) for product in (dx * dx, dy * dy, dx * dy))
    varies = (sxx > _rounding_of(x, weights)) & (syy > _rounding_of(y, weights))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(varies, np.clip(sxy / np.sqrt(sxx * syy), -1, 1), math.nan)


def _rounding_of(values: Floats, weights: Floats) -> Floats:
    """Return the sum of squares that rounding alone could leave in a row."""
    return (NOISE * np.abs(values).max(axis=1, where=weights > 0, initial=0)) ** 2


def equal_cost(settings: Iterable[Setting], sign: int) -> EqualCost | None:
    """Test the medium group and the pairs; None if there are neither. Settings with diverged runs do not take part."""
    usable = [setting for setting in settings if math.isfinite(setting.quality.mean)]
    medium = sorted(equally_expensive(usable), key=lambda setting: (-setting.early_bits, setting.label))
    pairs = _pairs(usable, sign)
    if not medium and not pairs:
        return None
    qualities = [{seed: sign * value for seed, value in setting.qualities.items()} for setting in medium]
    early = [dict.fromkeys(setting.qualities, setting.early_bits) for setting in medium]
    seeds = sorted(set.intersection(*(set(row) for row in qualities))) if medium else []
    blocks = np.array([[row[seed] for row in qualities] for seed in seeds]).reshape(len(seeds), len(medium))
    bits = [setting.early_bits for setting in medium]
    costs = [setting.bitops for setting in medium]
    cheapest = min(costs, default=0.0)
    return EqualCost(
        labels=[setting.label for setting in medium],
        spearman=over_settings(*arrays(early, qualities)),
        p=page_p(blocks, bits),
        pairs=pairs,
        reversed_p=page_p(-blocks, bits),
        spread=max(costs) / cheapest - 1 if cheapest else math.nan,
    )


def equally_expensive(settings: Sequence[Setting]) -> list[Setting]:
    """Return the largest set of medium schedules of equal cost and training; empty if there are fewer than three."""
    alike: dict[tuple[Bits | str, ...], list[Setting]] = {}
    for setting in sorted((s for s in settings if s.group == "medium"), key=lambda s: (s.bitops, s.label)):
        alike.setdefault(_training(setting), []).append(setting)
    sets = [
        [member for member in members if cheapest.bitops <= member.bitops <= cheapest.bitops * (1 + EQUAL)]
        for members in alike.values()
        for cheapest in members
    ]
    best = min(sets, key=lambda members: (-len(members), members[0].bitops, members[0].label), default=[])
    return best if len(best) >= MIN_SCHEDULES else []


def page_p(blocks: Floats, early_bits: Sequence[float]) -> float:
    """Return the p-value of Page's test that quality rises with early bits; rows are seeds, columns are schedules.

    Schedules with the same early bits are put in the order that favours a trend least. NaN for fewer than two seeds
    or three schedules, or where early bits do not differ.

    >>> seeds = np.array([[0.9, 0.8, 0.7], [0.8, 0.7, 0.6], [0.9, 0.7, 0.8]])
    >>> round(page_p(seeds, early_bits=[8, 6, 4]), 3), round(page_p(seeds, early_bits=[4, 6, 8]), 3)
    (0.032, 0.995)
    """
    seeds, schedules = blocks.shape
    bits = significant(early_bits)
    if seeds < 2 or schedules < MIN_SCHEDULES or len(set(bits)) < 2:
        return math.nan
    ranks = stats().rankdata(significant(blocks), axis=1)
    order = sorted(range(schedules), key=lambda column: (bits[column], -ranks[:, column].sum()))
    return float(stats().page_trend_test(ranks[:, order], ranked=True).pvalue)


def _pairs(settings: Sequence[Setting], sign: int) -> list[tuple[str, str, Comparison]]:
    """Compare the pairs of equal cost, with a correction for their number."""
    named: dict[str, list[tuple[object, Setting]]] = {}
    for setting in settings:
        if (s := schedule_of(setting.condition)) is not None:
            name, _, details = str(s).partition(":")
            named.setdefault(name, []).append(((details, _training(setting)), setting))
    pairs = [
        (high, low)
        for high_name, low_name in PAIRS
        for high_details, high in named.get(high_name, [])
        for low_details, low in named.get(low_name, [])
        if high_details == low_details and max(high.bitops, low.bitops) <= min(high.bitops, low.bitops) * (1 + EQUAL)
    ]
    comparisons = corrected([compare(high.qualities, low.qualities, sign) for high, low in pairs])
    return [(high.label, low.label, each) for (high, low), each in zip(pairs, comparisons, strict=True)]


def _training(setting: Setting) -> tuple[Bits | str, ...]:
    """What settings that differ by their schedule alone have in common."""
    c = setting.condition
    return c.learning_rate, gradient_bits(c), c.weights, c.activations, c.strength, c.grid
