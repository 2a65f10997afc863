"""Correlations and their intervals against scipy, against resamples made one by one, and against their laws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bitcycle._study.statistics.bootstrap import tail
from bitcycle._study.statistics.correlations import Table, correlation, weighted_ranks
from bitcycle._support.rounding import significant


def table(x, y):
    return Table.of([dict(enumerate(row)) for row in x], [dict(enumerate(row)) for row in y])


def random_table(settings, seeds, slope, seed=0):
    generator = np.random.default_rng(seed)
    cost = np.repeat(np.arange(1.0, settings + 1)[:, None], seeds, axis=1)
    return cost, slope * cost + generator.normal(size=(settings, seeds)) + 3 * generator.normal(size=seeds)


@pytest.mark.parametrize("slope", [-0.5, 0.0, 0.5])
def test_values_are_those_of_scipy(slope):
    x, y = random_table(9, 4, slope)
    for kind, theirs in (("Spearman", stats.spearmanr), ("Pearson", stats.pearsonr)):
        over_settings, over_runs = (correlation(kind, over, table(x, y)) for over in ("settings", "runs"))
        assert over_settings.value == pytest.approx(theirs(x.mean(1), y.mean(1)).statistic)
        assert over_runs.value == pytest.approx(theirs(x.ravel(), y.ravel()).statistic)
        assert (over_settings.count, over_runs.count) == (9, 36)


@pytest.mark.parametrize("kind", ["Spearman", "Pearson"])
def test_intervals_are_those_of_resamples_made_one_by_one(kind):
    theirs = {"Spearman": stats.spearmanr, "Pearson": stats.pearsonr}[kind]
    x, y = random_table(7, 6, 0.4)
    generator = np.random.default_rng(5)
    over_runs, over_settings = [], []
    for _ in range(1500):
        seeds, rows = generator.integers(6, size=6), generator.integers(7, size=7)
        over_runs.append(theirs(x[:, seeds].ravel(), y[:, seeds].ravel()).statistic)
        if len(set(rows)) > 1:
            over_settings.append(theirs(x[rows][:, seeds].mean(1), y[rows][:, seeds].mean(1)).statistic)
    for over, resampled, n in (("runs", over_runs, 6), ("settings", over_settings, 7)):
        found = correlation(kind, over, table(x, y))
        low, high = np.quantile(resampled, [tail(n), 1 - tail(n)])
        assert (found.low, found.high) == pytest.approx((low, high), abs=0.12)


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=8).flatmap(
        lambda values: st.tuples(
            st.just(values), st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values))
        )
    )
)
def test_weighted_ranks_are_the_ranks_of_repeated_values(case):
    values, weights = (np.array(part, dtype=float) for part in case)
    ranks = weighted_ranks(values, weights[None])[0]
    repeated = np.repeat(values, weights.astype(int))
    for value, rank in zip(repeated, stats.rankdata(repeated), strict=True):
        assert (ranks[(values == value) & (weights > 0)] == rank).all()


@given(st.integers(0, 1000))
def test_correlations_lie_inside_their_intervals_and_mirror(seed):
    x, y = random_table(6, 3, 0.3, seed)
    for kind in ("Spearman", "Pearson"):
        for over in ("settings", "runs"):
            found, mirrored = correlation(kind, over, table(x, y)), correlation(kind, over, table(x, -y))
            assert -1 <= found.low <= found.value <= found.high <= 1
            assert mirrored.value == pytest.approx(-found.value)
            assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low), abs=1e-6)


def test_missing_runs_are_left_out():
    x, y = random_table(6, 4, 0.5)
    rows_x, rows_y = ([dict(enumerate(row)) for row in rows] for rows in (x, y))
    del rows_x[2][1], rows_y[2][1], rows_x[5][3], rows_y[5][3]
    found = correlation("Pearson", "runs", Table.of(rows_x, rows_y))
    flat_x, flat_y = ([v for row in rows for v in row.values()] for rows in (rows_x, rows_y))
    assert found.count == 22
    assert found.value == pytest.approx(stats.pearsonr(flat_x, flat_y).statistic)
    assert correlation("Spearman", "settings", Table.of(rows_x, rows_y)).low < 1


def test_what_does_not_vary_has_no_correlation():
    x, y = random_table(6, 3, 0.5)
    for kind in ("Spearman", "Pearson"):
        for over in ("settings", "runs"):
            assert math.isnan(correlation(kind, over, table(x, y * 0 + 0.1)).value)
            assert math.isnan(correlation(kind, over, table(x * 0 + 0.1, y)).value)
            assert math.isnan(correlation(kind, over, Table.of([], [])).value)


def test_means_that_are_equal_on_paper_are_ties():
    y = [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.3, 0.1]]
    found = correlation("Spearman", "settings", table([[1] * 3, [2] * 3, [3] * 3], y))
    assert math.isnan(found.value)


@given(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False))
def test_rounding_moves_the_thirteenth_digit_at_most(value):
    assert float(significant(value)) == pytest.approx(value, rel=1e-12, abs=0)
    assert float(significant(-value)) == -float(significant(value))
