"""At equal cost, does precision early in training make the difference?

The schedules of the medium group cost the same, yet spend from few to nearly all of their bits on the first tenth of
training. Page's test asks whether quality follows that order in the same way for every seed: with the rank ``r`` of
a schedule within a seed, and its place ``k`` in the order of early bits, it is large where ``L = sum k * r`` is.
RTH with RR and ETH with ER are pairs of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from bitcycle._study.analysis import Comparison, EqualCost, Setting
from bitcycle._study.statistics.comparisons import compare, corrected
from bitcycle._study.statistics.correlations import Table, correlation
from bitcycle._study.statistics.reading import gradient_bits, schedule_of
from bitcycle._study.statistics.rounding import significant
from bitcycle._study.statistics.scipy_stats import stats

EQUAL = 0.05
"""Costs within 5 % of each other count as equal: the paper's are within 1.5 %, short trainings round their cycles."""

FEWEST = 3
"""Schedules that make an order."""

PAIRS = (("RTH", "RR"), ("ETH", "ER"))
"""Schedules of the same cost, of which the first starts high and the second low."""


def equal_cost(settings: Iterable[Setting], sign: int) -> EqualCost | None:
    """The test of the medium group and of the pairs, or None if there are neither; diverged settings are left out."""
    usable = [setting for setting in settings if math.isfinite(setting.quality.mean)]
    medium = sorted(equally_dear(usable), key=lambda setting: (-setting.early_bits, setting.label))
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
        spearman=correlation("Spearman", "settings", Table.of(early, qualities)),
        p=page_p(blocks, bits),
        pairs=pairs,
        reversed_p=page_p(-blocks, bits),
        spread=max(costs) / cheapest - 1 if cheapest else math.nan,
    )


def equally_dear(settings: Sequence[Setting]) -> list[Setting]:
    """The most schedules of the medium group that cost the same and are trained alike; none if fewer than three."""
    best: list[Setting] = []
    medium = sorted((s for s in settings if s.group == "medium"), key=lambda s: (s.bitops, s.label))
    for first in medium:
        together = [s for s in medium if _alike(s, first) and first.bitops <= s.bitops <= first.bitops * (1 + EQUAL)]
        if len(together) > len(best):
            best = together
    return best if len(best) >= FEWEST else []


def page_p(blocks: np.ndarray[tuple[int, int], np.dtype[np.float64]], early_bits: Sequence[float]) -> float:
    """The p-value of Page's test that quality rises with early bits: seeds as rows, schedules as columns.

    Schedules with the same early bits are put in the order that speaks least for a trend. NaN for fewer than two seeds
    or three schedules, or where early bits do not differ.

    >>> seeds = np.array([[0.9, 0.8, 0.7], [0.8, 0.7, 0.6], [0.9, 0.7, 0.8]])
    >>> round(page_p(seeds, early_bits=[8, 6, 4]), 3), round(page_p(seeds, early_bits=[4, 6, 8]), 3)
    (0.032, 0.995)
    """
    seeds, schedules = blocks.shape
    bits = significant(early_bits)
    if seeds < 2 or schedules < FEWEST or len(set(bits)) < 2:
        return math.nan
    ranks = stats().rankdata(significant(blocks), axis=1)
    order = sorted(range(schedules), key=lambda column: (bits[column], -ranks[:, column].sum()))
    return float(stats().page_trend_test(ranks[:, order], ranked=True).pvalue)


def _pairs(settings: Sequence[Setting], sign: int) -> list[tuple[str, str, Comparison]]:
    """The pairs of equal cost, compared, and corrected for their number."""
    named = [(str(s).partition(":"), setting) for setting in settings if (s := schedule_of(setting.run)) is not None]
    found = [
        (high, low)
        for high_name, low_name in PAIRS
        for (name, _, details), high in named
        for (other, _, other_details), low in named
        if (name, other) == (high_name, low_name)
        and details == other_details
        and _alike(high, low)
        and max(high.bitops, low.bitops) <= min(high.bitops, low.bitops) * (1 + EQUAL)
    ]
    comparisons = corrected([compare(high.qualities, low.qualities, sign) for high, low in found])
    return [(high.label, low.label, c) for (high, low), c in zip(found, comparisons, strict=True)]


def _alike(one: Setting, other: Setting) -> bool:
    """Whether two settings differ by their schedule alone."""
    return one.run.learning_rate == other.run.learning_rate and gradient_bits(one.run) == gradient_bits(other.run)
