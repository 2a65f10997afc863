"""Early precision at equal cost: Page's test, the pairs, and who takes part."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bitcycle._study.claims import EarlyPrecision, HighStart
from bitcycle._study.statistics.equal_cost import page_p
from tests.study.statistics_records import SPECS, TEN_SPECS, claim, noise, only, record, said, study

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
    assert claim(analysis, EarlyPrecision, labels=tuple(ORDER)).verdict == "supported"
    assert said(analysis, EarlyPrecision).startswith("At equal cost (RTV, CT, LT, LR, CR and ETV")
    assert [(high, low, c.outcome) for high, low, c in found.pairs] == [
        ("RTH", "RR", "better"),
        ("ETH", "ER", "better"),
    ]
    assert claim(analysis, HighStart).verdict == "supported"
    assert "the schedule that starts at high precision is better" in said(analysis, HighStart)


def test_the_opposite_contradicts():
    analysis = only(by_early_bits(-0.02))
    assert analysis.equal_cost.reversed_p < 0.001
    assert claim(analysis, EarlyPrecision).verdict == "contradicted"
    assert "quality falls with the bits of the first tenth" in said(analysis, EarlyPrecision)
    assert claim(analysis, HighStart).verdict == "contradicted"
    assert "the schedule that starts at high precision is worse" in said(analysis, HighStart)


def test_nothing_planted_is_open():
    analysis = only(by_early_bits(0.0))
    assert claim(analysis, EarlyPrecision).verdict == "open"
    assert "quality rises with the bits of the first tenth of training is open" in said(analysis, EarlyPrecision)
    assert claim(analysis, HighStart).verdict == "open"
    assert said(analysis, HighStart).startswith("Whether it helps to start at high precision is open")


def test_p_is_that_of_page():
    records = by_early_bits(0.002)
    found = only(records).equal_cost
    quality = {(r.run.schedule.split(":")[0], r.run.seed): r.test for r in records}
    rows = [[quality[name, seed] for name in reversed(ORDER)] for seed in range(5)]
    assert found.p == stats.page_trend_test(rows).pvalue
    assert found.reversed_p == stats.page_trend_test(-np.array(rows)).pvalue


@given(st.lists(st.permutations(range(4)), min_size=2, max_size=4), st.permutations(range(4)))
def test_the_order_of_columns_does_not_matter(rows, order):
    blocks, bits = np.array(rows, dtype=float), np.array([3.0, 5.0, 5.0, 8.0])
    assert page_p(blocks, list(bits)) == page_p(blocks[:, order], list(bits[list(order)]))


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


def test_lower_is_better_turns_the_order():
    noisy = noise(0.1)
    records = study(lambda s, cost, seed: 90 - 2 * s.mean_bits(160, 0.1) + noisy(), higher_is_better=False)
    assert claim(only(records), EarlyPrecision).verdict == "supported"
    assert "quality rises" in said(only(records), EarlyPrecision)


def test_only_equal_costs_take_part():
    specs = [*TEN_SPECS, "CR:4-8:cycles=8", "LT:4-8:cycles=8", "CR:3-8:cycles=2"]
    analysis = only(by_early_bits(0.0, specs=specs))
    assert set(analysis.equal_cost.labels) == {"RTV", "CT", "LT 3-8", "LR", "CR 3-8 n=8", "CR 3-8 n=2", "ETV"}
    assert analysis.equal_cost.spread <= 0.05


def test_settings_that_are_trained_otherwise_do_not_take_part():
    records = by_early_bits(0.0) + [
        record("CR:3-8:cycles=8", seed, 0.5, learning_rate="restart@80") for seed in range(5)
    ]
    assert only(records).equal_cost.labels == ORDER


def test_diverged_settings_do_not_take_part():
    records = [r for r in by_early_bits(0.02) if not r.run.schedule.startswith("RTV")]
    lost = [record("RTV:3-8:cycles=8", seed, math.nan if seed == 2 else 0.9) for seed in range(5)]
    found = only(records + lost).equal_cost
    assert found.labels == ORDER[1:]
    assert found.p < 0.05


@pytest.mark.parametrize(
    ("specs", "labels", "pairs"),
    [
        (["static:8", "CR:3-8:cycles=8", "CT:3-8:cycles=8"], None, None),
        (["RTH:3-8:cycles=8", "RR:3-8:cycles=8", "RR:3-8:cycles=4"], [], [("RTH", "RR n=8")]),
        (["RTV:3-8:cycles=8", "ETV:3-8:cycles=8", "CR:3-8:cycles=8"], ["RTV", "CR", "ETV"], []),
    ],
)
def test_small_studies(specs, labels, pairs):
    found = only(by_early_bits(0.02, specs=specs)).equal_cost
    assert (found and found.labels) == labels
    assert (found and [(high, low) for high, low, _ in found.pairs]) == pairs


def test_short_trainings_whose_cycles_round_to_other_costs_are_not_equal():
    noisy = noise(0.01)
    found = only(study(lambda s, cost, seed: 0.9 + noisy(), steps=64)).equal_cost
    assert found.labels == ["RTV", "CT", "LT", "ETV"]
    assert found.pairs == []


def test_a_single_seed_is_open():
    analysis = only(by_early_bits(0.02, seeds=1))
    assert "the test needs two seeds" in said(analysis, EarlyPrecision)
    assert {c.outcome for _, _, c in analysis.equal_cost.pairs} == {"too few seeds"}
