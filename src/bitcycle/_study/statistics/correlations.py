"""Correlation of quality with cost, over settings and over runs, with bootstrap intervals.

Over runs, the seeds are resampled, each of them a block with all of its runs: runs of one seed share their data and
their initial weights. The interval says what other seeds of the same settings could give.

Over settings (their means), the settings are resampled, and the seeds that make up their means as well: the interval
says what other settings, measured as noisily as these, could give. Resamples in which nothing varies are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitcycle._study.analysis import Correlation
from bitcycle._study.statistics.resampling import counted, drawn, interval
from bitcycle._study.statistics.rounding import NOISE, Floats, scaled, significant
from bitcycle._study.statistics.scipy_stats import stats

KINDS = ("Spearman", "Pearson")

FEWEST_SETTINGS = 5
"""Fewer have no interval over settings: by chance, four fall into perfect order in 1 of 12 cases, five in 1 of 60."""


@dataclass(frozen=True)
class Table:
    """Two figures of every run, as arrays of settings x seeds, scaled to 1 at most; NaN where there is no run."""

    x: Floats
    y: Floats

    @classmethod
    def of(cls, x: Sequence[Mapping[int, float]], y: Sequence[Mapping[int, float]]) -> Table:
        """From one mapping of seeds to figures for every setting.

        >>> Table.of([{0: 1, 1: 1}, {0: 2}], [{0: 5, 1: 6}, {0: 7}]).y.tolist()
        [[0.625, 0.75], [0.875, nan]]
        """
        seeds = sorted({seed for row in y for seed in row})
        arrays = (
            np.array([[row.get(seed, math.nan) for seed in seeds] for row in rows], dtype=np.float64).reshape(
                len(rows), len(seeds)
            )
            for rows in (x, y)
        )
        return cls(*(scaled(array) for array in arrays))

    @property
    def present(self) -> NDArray[np.bool_]:
        """Where there is a run."""
        return ~np.isnan(self.y)


def correlation(kind: str, over: str, table: Table) -> Correlation:
    """Spearman's or Pearson's correlation of the table's two figures, over settings or over runs.

    It is NaN where one of the two figures does not vary.

    >>> cost = [{0: c, 1: c} for c in (1, 2, 3, 4, 5)]
    >>> quality = [{0: 0.5, 1: 0.6}, {0: 0.6, 1: 0.7}, {0: 0.7, 1: 0.7}, {0: 0.8, 1: 0.9}, {0: 0.9, 1: 0.95}]
    >>> found = correlation("Spearman", "settings", Table.of(cost, quality))
    >>> round(found.value, 3), found.count
    (1.0, 5)
    """
    resamples = _over_settings if over == "settings" else _over_runs
    return resamples(kind, table)


def correlations(table: Table) -> list[Correlation]:
    """Both kinds, over settings and over runs."""
    return [correlation(kind, over, table) for kind in KINDS for over in ("settings", "runs")]


def _over_settings(kind: str, table: Table) -> Correlation:
    count, seeds = table.y.shape
    if not count:
        return Correlation(kind, "settings", math.nan, math.nan, math.nan, 0)
    once = np.ones((1, seeds))
    x, y = _means(table.x, once), _means(table.y, once)
    value = float(_along_rows(kind, x, y)[0])
    low = high = math.nan
    if count >= FEWEST_SETTINGS and not math.isnan(value):
        settings = drawn(count)
        means = _means(table.y, counted(seeds))
        resampled = _along_rows(kind, x[0][settings], np.take_along_axis(means, settings, axis=1))
        low, high = interval(resampled, count)
    return Correlation(kind, "settings", value, min(low, value), max(high, value), count)


def _over_runs(kind: str, table: Table) -> Correlation:
    seeds = table.y.shape[1]
    present = table.present
    x, y = significant(table.x[present]), significant(table.y[present])
    if not y.size:
        return Correlation(kind, "runs", math.nan, math.nan, math.nan, 0)
    value = float(_weighted(kind, x, y, np.ones((1, y.size)))[0])
    low = high = math.nan
    if seeds >= 2 and not math.isnan(value):
        seed_of_run = np.nonzero(present)[1]
        low, high = interval(_weighted(kind, x, y, counted(seeds)[:, seed_of_run]), seeds)
    return Correlation(kind, "runs", value, min(low, value), max(high, value), int(y.size))


def _means(figures: Floats, seed_counts: Floats) -> Floats:
    """The settings' means over resampled seeds, a resample a row; NaN for a setting none of whose seeds was drawn."""
    present = ~np.isnan(figures)
    with np.errstate(invalid="ignore"):
        return significant(seed_counts @ np.where(present, figures, 0).T / (seed_counts @ present.T))


def _along_rows(kind: str, x: Floats, y: Floats) -> Floats:
    """The correlation within each row."""
    if kind == "Spearman":
        # A row with an undefined mean gets undefined ranks, and with them an undefined correlation.
        x, y = (stats().rankdata(figures, axis=1, nan_policy="propagate") for figures in (x, y))
    return _pearson(x, y, np.ones_like(y))


def _weighted(kind: str, x: Floats, y: Floats, weights: Floats) -> Floats:
    """The correlation over runs that count as often as a row of weights says, for every row."""
    if kind == "Spearman":
        return _pearson(weighted_ranks(x, weights), weighted_ranks(y, weights), weights)
    return _pearson(np.broadcast_to(x, weights.shape), np.broadcast_to(y, weights.shape), weights)


def weighted_ranks(values: Floats, weights: Floats) -> Floats:
    """Ranks, ties at their mean, of values that occur as often as a row of weights says, for every row.

    >>> weighted_ranks(np.array([10.0, 30.0, 20.0]), np.array([[1, 1, 1], [2, 1, 1]])).tolist()
    [[1.0, 3.0, 2.0], [1.5, 4.0, 3.0]]
    """
    levels, level_of = np.unique(values, return_inverse=True)
    occurring = weights @ (level_of[:, None] == np.arange(len(levels)))
    below = np.cumsum(occurring, axis=1) - occurring
    ranks: Floats = (below + (occurring + 1) / 2)[:, level_of]
    return ranks


def _pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    """``sum w dx dy / sqrt(sum w dx^2 * sum w dy^2)`` with deviations from the weighted means, for every row."""
    total = weights.sum(axis=1, keepdims=True)
    dx, dy = (figures - (weights * figures).sum(axis=1, keepdims=True) / total for figures in (x, y))
    sxx, syy, sxy = ((weights * product).sum(axis=1) for product in (dx * dx, dy * dy, dx * dy))
    varies = (sxx > _rounding_of(x, weights)) & (syy > _rounding_of(y, weights))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(varies, np.clip(sxy / np.sqrt(sxx * syy), -1, 1), math.nan)


def _rounding_of(figures: Floats, weights: Floats) -> Floats:
    """The sum of squares that rounding alone could leave in a row."""
    return (NOISE * np.abs(figures).max(axis=1, where=weights > 0, initial=0)) ** 2
