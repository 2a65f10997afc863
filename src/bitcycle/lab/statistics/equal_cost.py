"""At equal cost, does precision early in training make the difference?

The schedules of the medium group cost the same, but their bits in the first tenth of training differ widely. Page's
test asks whether quality follows the order of early bits for every seed: with the rank ``r`` of a schedule within a
seed, and its position ``k`` in the order of early bits, the statistic is ``L = sum k * r``. RTH with RR, and ETH with
ER, are pairs of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from bitcycle.lab.judging import significant
from bitcycle.lab.statistics.analysis import Comparison, CorrelationKind, EqualCost, Over, Setting
from bitcycle.lab.statistics.bootstrap import stats
from bitcycle.lab.statistics.comparisons import compare, corrected
from bitcycle.lab.statistics.correlations import Table, correlation
from bitcycle.lab.statistics.labels import gradient_bits, schedule_of
from bitcycle.schedules.base import Bits

EQUAL = 0.05
"""Costs within 5 % of each other count as equal: the paper's are within 1.5 %, but short runs round their cycles."""

MIN_SCHEDULES = 3
"""With fewer schedules there is no order to test."""

PAIRS = (("RTH", "RR"), ("ETH", "ER"))
"""Schedules of the same cost; the first starts high, the second low."""


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
        spearman=correlation(CorrelationKind.SPEARMAN, Over.SETTINGS, Table.of(early, qualities)),
        p=page_p(blocks, bits),
        pairs=pairs,
        reversed_p=page_p(-blocks, bits),
        spread=max(costs) / cheapest - 1 if cheapest else math.nan,
    )


def equally_expensive(settings: Sequence[Setting]) -> list[Setting]:
    """Return the largest set of medium schedules that cost the same and are trained alike; empty if below three."""
    alike: dict[tuple[Bits | str, ...], list[Setting]] = {}
    for setting in sorted((s for s in settings if s.group == "medium"), key=_order):
        alike.setdefault(_training(setting), []).append(setting)
    sets = [
        [member for member in members if cheapest.bitops <= member.bitops <= cheapest.bitops * (1 + EQUAL)]
        for members in alike.values()
        for cheapest in members
    ]
    best = min(sets, key=lambda members: (-len(members), _order(members[0])), default=[])
    return best if len(best) >= MIN_SCHEDULES else []


def _order(setting: Setting) -> tuple[float, str]:
    return setting.bitops, setting.label


def page_p(blocks: np.ndarray[tuple[int, int], np.dtype[np.float64]], early_bits: Sequence[float]) -> float:
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
