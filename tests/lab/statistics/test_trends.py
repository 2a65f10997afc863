"""Correlations with their intervals and their memory, and the order of schedules at equal cost."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bitcycle.lab.judging import significant
from bitcycle.lab.statistics.analysis import ClaimKind
from bitcycle.lab.statistics.estimates import RESAMPLES, counted, drawn, tail
from bitcycle.lab.statistics.trends import arrays, over_runs, over_settings, page_p, weighted_ranks
from tests.lab.statistics.made_up import SPECS, TEN_SPECS, claim, noise, only, record, said, study


def random_table(settings, seeds, slope, seed=0):
    generator = np.random.default_rng(seed)
    cost = np.repeat(np.arange(1.0, settings + 1)[:, None], seeds, axis=1)
    return cost, slope * cost + generator.normal(size=(settings, seeds)) + 3 * generator.normal(size=seeds)


@pytest.mark.parametrize("slope", [-0.5, 0.0, 0.5])
def test_values_are_those_of_scipy(slope):
    x, y = random_table(9, 4, slope)
    assert over_settings(x, y).value == pytest.approx(stats.spearmanr(x.mean(1), y.mean(1)).statistic)
    assert over_runs(x, y).value == pytest.approx(stats.spearmanr(x.ravel(), y.ravel()).statistic)
    assert (over_settings(x, y).count, over_runs(x, y).count) == (9, 36)


@pytest.mark.slow
def test_intervals_are_those_of_resamples_made_one_by_one():
    def theirs(a, b):  # as scipy's, but faster
        return np.corrcoef(stats.rankdata(a), stats.rankdata(b))[0, 1]

    x, y = random_table(7, 6, 0.4)
    generator = np.random.default_rng(5)
    of_runs, of_settings = [], []
    for _ in range(1500):
        seeds, rows = generator.integers(6, size=6), generator.integers(7, size=7)
        of_runs.append(theirs(x[:, seeds].ravel(), y[:, seeds].ravel()))
        if len(set(rows)) > 1:
            of_settings.append(theirs(x[rows][:, seeds].mean(1), y[rows][:, seeds].mean(1)))
    for found, resampled, n in ((over_runs(x, y), of_runs, 6), (over_settings(x, y), of_settings, 7)):
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


@pytest.mark.parametrize("correlation", [over_settings, over_runs])
@given(st.integers(0, 1000))
def test_correlations_lie_inside_their_intervals_and_mirror(correlation, seed):
    x, y = random_table(6, 3, 0.3, seed)
    found, mirrored = correlation(x, y), correlation(x, -y)
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert mirrored.value == pytest.approx(-found.value)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low), abs=1e-6)


def test_missing_runs_are_left_out():
    x, y = random_table(6, 4, 0.5)
    y[2, 1] = y[5, 3] = math.nan
    found = over_runs(x, y)
    assert found.count == 22
    assert found.value == pytest.approx(stats.spearmanr(x[~np.isnan(y)], y[~np.isnan(y)]).statistic)
    assert over_settings(x, y).low < 1


@pytest.mark.parametrize("correlation", [over_settings, over_runs])
def test_what_does_not_vary_has_no_correlation(correlation):
    x, y = random_table(6, 3, 0.5)
    assert math.isnan(correlation(x, y * 0 + 0.1).value)
    assert math.isnan(correlation(x * 0 + 0.1, y).value)
    assert math.isnan(correlation(*arrays([], [])).value)


@given(st.floats(-1e100, 1e100, allow_subnormal=False))
def test_rounding_changes_the_thirteenth_digit_at_most(value):
    assert float(significant(value)) == pytest.approx(value, rel=1e-12, abs=0)
    assert float(significant(-value)) == -float(significant(value))


def test_resamples_are_fixed_and_draw_evenly():
    for make, mean in ((drawn, 3), (counted, 1)):
        whole = np.concatenate(list(make(7)))
        assert whole.shape == (RESAMPLES, 7)
        assert (whole == np.concatenate(list(make(7)))).all()
        assert whole.mean(axis=0) == pytest.approx(mean, abs=0.12)


ORDER = ["RTV", "CT", "LT", "LR", "CR", "ETV"]


def by_early_bits(slope, seeds=5, specs=SPECS, scale=0.004):
    noisy = noise(scale)
    return study(lambda s, cost, seed: 0.8 + slope * s.mean_bits(160, 0.1) + 0.05 * seed + noisy(), specs, seeds)


def test_planted_early_precision_is_found():
    analysis = only(by_early_bits(0.02))
    found = analysis.equal_cost
    assert found.labels == ORDER
    assert found.p < 0.001
    assert found.reversed_p > 0.99
    assert found.spearman.value > 0.8
    assert 0 < found.spread < 0.05
    assert claim(analysis, ClaimKind.EARLY_PRECISION).verdict == "supported"
    assert said(analysis, ClaimKind.EARLY_PRECISION).startswith("At equal cost (RTV, CT, LT, LR, CR and ETV")
    assert [(high, low, c.outcome) for high, low, c in found.pairs] == [
        ("RTH", "RR", "better"),
        ("ETH", "ER", "better"),
    ]
    assert claim(analysis, ClaimKind.HIGH_START).verdict == "supported"
    assert "the schedule that starts at high precision is better" in said(analysis, ClaimKind.HIGH_START)


def test_the_opposite_contradicts():
    analysis = only(by_early_bits(-0.02))
    assert analysis.equal_cost.reversed_p < 0.001
    assert claim(analysis, ClaimKind.EARLY_PRECISION).verdict == "contradicted"
    assert "quality falls with the bits of the first tenth" in said(analysis, ClaimKind.EARLY_PRECISION)
    assert claim(analysis, ClaimKind.HIGH_START).verdict == "contradicted"
    assert "the schedule that starts at high precision is worse" in said(analysis, ClaimKind.HIGH_START)


def test_nothing_planted_is_open():
    analysis = only(by_early_bits(0.0))
    assert claim(analysis, ClaimKind.EARLY_PRECISION).verdict == "open"
    assert "quality rises with the bits of the first tenth of training is open" in said(
        analysis, ClaimKind.EARLY_PRECISION
    )
    assert claim(analysis, ClaimKind.HIGH_START).verdict == "open"
    assert said(analysis, ClaimKind.HIGH_START).startswith("Whether it helps to start at high precision is open")


def test_p_is_that_of_page():
    records = by_early_bits(0.002)
    found = only(records).equal_cost
    quality = {(r.run.schedule.split(":")[0], r.run.seed): r.test for r in records}
    rows = [[quality[name, seed] for name in reversed(ORDER)] for seed in range(5)]
    assert found.p == stats.page_trend_test(rows).pvalue
    assert found.reversed_p == stats.page_trend_test(-np.array(rows)).pvalue


@given(st.lists(st.permutations(range(4)), min_size=2, max_size=4))
def test_equal_early_bits_are_ordered_against_the_trend(rows):
    blocks = np.array(rows, dtype=float)
    either = [page_p(blocks, bits) for bits in ([3.0, 5.0, 5.1, 8.0], [3.0, 5.1, 5.0, 8.0])]
    assert page_p(blocks, [3.0, 5.0, 5.0, 8.0]) == max(either)


def test_page_is_undefined_for_too_little():
    blocks = np.arange(12.0).reshape(3, 4)
    assert math.isnan(page_p(blocks[:1], [1, 2, 3, 4]))
    assert math.isnan(page_p(blocks[:, :2], [1, 2]))
    assert math.isnan(page_p(blocks, [5, 5, 5, 5]))
    assert page_p(np.ones((3, 4)), [1, 2, 3, 4]) > 0.5


def test_only_equal_costs_take_part():
    specs = [*TEN_SPECS, "CR:4-8:cycles=8", "LT:4-8:cycles=8", "CR:3-8:cycles=2"]
    analysis = only(by_early_bits(0.0, specs=specs))
    assert set(analysis.equal_cost.labels) == {"RTV", "CT", "LT", "LR", "CR", "CR n=2", "ETV"}
    assert analysis.equal_cost.spread <= 0.05


def test_settings_that_are_trained_otherwise_do_not_take_part():
    records = by_early_bits(0.0) + [
        record("CR:3-8:cycles=8", seed, 0.5, learning_rate="restart@80") for seed in range(5)
    ]
    assert only(records).equal_cost.labels == ORDER


@pytest.mark.parametrize(
    ("specs", "labels", "pairs"),
    [
        (["static:8", "CR:3-8:cycles=8", "CT:3-8:cycles=8"], None, None),
        (["RTH:3-8:cycles=8", "RR:3-8:cycles=8", "RR:3-8:cycles=4"], [], [("RTH", "RR")]),
        (["RTV:3-8:cycles=8", "ETV:3-8:cycles=8", "CR:3-8:cycles=8"], ["RTV", "CR", "ETV"], []),
    ],
)
def test_small_studies(specs, labels, pairs):
    found = only(by_early_bits(0.02, specs=specs)).equal_cost
    assert (found and found.labels) == labels
    assert (found and [(high, low) for high, low, _ in found.pairs]) == pairs
