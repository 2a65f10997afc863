"""Correlation of quality with cost, over settings and over runs, with bootstrap intervals.

Over runs, the seeds are resampled, each together with all of its runs: runs of one seed share their data and their
initial weights. The interval says what other seeds of the same settings could give.

Over settings (their means), the settings are resampled, and so are the seeds that make up their means: the interval
says what other settings, measured as noisily as these, could give. Resamples in which nothing varies are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitcycle._support.student_t import Floats
from bitcycle.lab.judging import NOISE, significant
from bitcycle.lab.statistics.analysis import Correlation, CorrelationKind, Over
from bitcycle.lab.statistics.bootstrap import counted, drawn, interval, stats

MIN_SETTINGS = 5
"""Fewer have no interval over settings: by chance, four are in perfect order in 1 of 12 cases, five in 1 of 60."""


@dataclass(frozen=True)
class Table:
    """Two numbers for every run, as arrays of settings x seeds; NaN where there is no run."""

    x: Floats
    y: Floats

    @classmethod
    def of(cls, x: Sequence[Mapping[int, float]], y: Sequence[Mapping[int, float]]) -> Table:
        """Make a table from one mapping of seeds to numbers for every setting.

        >>> Table.of([{0: 1, 1: 1}, {0: 2}], [{0: 5, 1: 6}, {0: 7}]).y.tolist()
        [[5.0, 6.0], [7.0, nan]]
        """
        seeds = sorted({seed for row in y for seed in row})
        values = ([row.get(seed, math.nan) for row in rows for seed in seeds] for rows in (x, y))
        return cls(*(np.array(each, dtype=np.float64).reshape(len(y), len(seeds)) for each in values))

    @property
    def present(self) -> NDArray[np.bool_]:
        """Where there is a run."""
        return ~np.isnan(self.y)


def correlation(kind: CorrelationKind, over: Over, table: Table) -> Correlation:
    """Return Spearman's or Pearson's correlation of the table's two numbers, over settings or over runs.

    It is NaN where one of the two does not vary.

    >>> cost = [{0: c, 1: c} for c in (1, 2, 3, 4, 5)]
    >>> quality = [{0: 0.5, 1: 0.6}, {0: 0.6, 1: 0.7}, {0: 0.7, 1: 0.7}, {0: 0.8, 1: 0.9}, {0: 0.9, 1: 0.95}]
    >>> found = correlation(CorrelationKind.SPEARMAN, Over.SETTINGS, Table.of(cost, quality))
    >>> round(found.value, 3), found.count
    (1.0, 5)
    """
    return (_over_settings if over == Over.SETTINGS else _over_runs)(kind, table)


def correlations(table: Table) -> list[Correlation]:
    """Return both kinds of correlation, over settings and over runs."""
    return [correlation(kind, over, table) for kind in CorrelationKind for over in Over]


def _over_settings(kind: CorrelationKind, table: Table) -> Correlation:
    count, seeds = table.y.shape
    if not count:
        return Correlation(kind, Over.SETTINGS, math.nan, math.nan, math.nan, 0)
    once = np.ones((1, seeds))
    x, y = _means(table.x, once), _means(table.y, once)
    value = float(_along_rows(kind, x, y)[0])
    low = high = math.nan
    if count >= MIN_SETTINGS and not math.isnan(value):
        resampled = [
            _along_rows(kind, x[0][settings], np.take_along_axis(_means(table.y, counts), settings, axis=1))
            for settings, counts in zip(drawn(count), counted(seeds), strict=True)
        ]
        low, high = interval(np.concatenate(resampled), count)
    return Correlation(kind, Over.SETTINGS, value, min(low, value), max(high, value), count)


def _over_runs(kind: CorrelationKind, table: Table) -> Correlation:
    seeds = table.y.shape[1]
    present = table.present
    x, y = significant(table.x[present]), significant(table.y[present])
    if not y.size:
        return Correlation(kind, Over.RUNS, math.nan, math.nan, math.nan, 0)
    value = float(_weighted(kind, x, y, np.ones((1, y.size)))[0])
    low = high = math.nan
    if seeds >= 2 and not math.isnan(value):
        seed_of_run = np.nonzero(present)[1]
        resampled = [_weighted(kind, x, y, counts[:, seed_of_run]) for counts in counted(seeds)]
        low, high = interval(np.concatenate(resampled), seeds)
    return Correlation(kind, Over.RUNS, value, min(low, value), max(high, value), int(y.size))


def _means(values: Floats, seed_counts: Floats) -> Floats:
    """Return the settings' means over resampled seeds, one resample per row; NaN where no seed is drawn."""
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return significant(seed_counts @ np.where(present, values, 0).T / (seed_counts @ present.T))


def _along_rows(kind: CorrelationKind, x: Floats, y: Floats) -> Floats:
    """Return the correlation within each row."""
    if kind == CorrelationKind.SPEARMAN:
        # A row with an undefined mean gets undefined ranks, and with them an undefined correlation.
        x, y = (stats().rankdata(values, axis=1, nan_policy="propagate") for values in (x, y))
    return _pearson(x, y, np.ones_like(y))


def _weighted(kind: CorrelationKind, x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return, for every row of weights, the correlation over runs that count as often as the row says."""
    if kind == CorrelationKind.SPEARMAN:
        return _pearson(weighted_ranks(x, weights), weighted_ranks(y, weights), weights)
    return _pearson(np.broadcast_to(x, weights.shape), np.broadcast_to(y, weights.shape), weights)


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
