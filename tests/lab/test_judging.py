"""The one test of "as good as the baseline": against scipy, and at its borders."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from bitcycle._support.student_t import t_quantile
from bitcycle.lab.judging import RELATIVE_MARGIN, Judgement, non_inferiority

VALUES = st.floats(-1e3, 1e3).map(lambda value: round(value, 4))
PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=9)
BASE = dict(enumerate([0.90, 0.91, 0.89, 0.92, 0.90, 0.93]))


def moved(by, noise=(0.001, -0.002, 0.0, 0.002, -0.001, 0.0)):
    return {seed: value + by + noise[seed] for seed, value in BASE.items()}


@given(PAIRS)
def test_bounds_are_those_of_scipy(pairs):
    ours, theirs = np.array(pairs).T
    assume(np.ptp(ours - theirs) > 1e-3)
    found = non_inferiority(dict(enumerate(ours)), dict(enumerate(theirs)))
    bounds = stats.ttest_rel(ours, theirs).confidence_interval(0.90)  # two one-sided bounds of 95 % each
    assert (found.lower, found.upper) == pytest.approx((bounds.low, bounds.high), abs=1e-9)
    assert found.mean == pytest.approx((ours - theirs).mean(), abs=1e-9)
    assert found.margin == pytest.approx(RELATIVE_MARGIN * abs(theirs.mean()), abs=1e-12)
    assert found.seeds == len(pairs)


@given(st.sampled_from([0.8, 0.95, 0.975, 0.999]), st.integers(1, 300))
def test_quantiles_are_those_of_scipy(confidence, degrees):
    assert t_quantile(confidence, degrees) == pytest.approx(stats.t.ppf(confidence, degrees), rel=1e-12)


@given(PAIRS, st.floats(0, 100))
def test_acceptance_is_the_one_sided_t_test_at_the_margin(pairs, margin):
    ours, theirs = np.array(pairs).T
    assume(len(pairs) >= 3)
    assume(np.ptp(ours - theirs) > 1e-3)
    p = stats.ttest_1samp(ours - theirs, -margin, alternative="greater").pvalue
    assume(abs(p - 0.05) > 1e-9)
    assert non_inferiority(dict(enumerate(ours)), dict(enumerate(theirs)), margin=margin).accepted == (p < 0.05)


@given(PAIRS, st.floats(0, 100))
def test_a_lower_metric_that_is_better_mirrors(pairs, margin):
    ours, theirs = (dict(enumerate(values)) for values in np.array(pairs).T)
    up = non_inferiority(ours, theirs, margin=margin)
    turned = [{seed: -value for seed, value in values.items()} for values in (ours, theirs)]
    assert non_inferiority(*turned, margin=margin, higher_is_better=False) == up


@given(PAIRS, st.floats(0, 50), st.floats(0, 50))
def test_a_wider_margin_accepts_no_less(pairs, margin, more):
    ours, theirs = (dict(enumerate(values)) for values in np.array(pairs).T)
    if non_inferiority(ours, theirs, margin=margin).accepted:
        assert non_inferiority(ours, theirs, margin=margin + more).accepted


@pytest.mark.parametrize(
    ("by", "judgement"),
    [(0.1, "better"), (-0.005, "as good"), (-0.004, "not shown to be as good"), (-0.05, "worse")],
)
def test_judgements(by, judgement):
    noise = (0.005, -0.01, 0.0, 0.01, -0.005, 0.0) if by == -0.004 else (0.001, -0.002, 0.0, 0.002, -0.001, 0.0)
    assert non_inferiority(moved(by, noise), BASE).judgement == judgement


def test_fewer_than_three_shared_seeds_decide_nothing():
    for seeds in range(3):
        found = non_inferiority({seed: 1.0 + 0.01 * seed for seed in range(seeds)}, BASE)
        assert (found.judgement, found.seeds) == (Judgement.TOO_FEW_SEEDS, seeds)
    assert non_inferiority({}, {}).judgement is Judgement.TOO_FEW_SEEDS
    assert non_inferiority({9: 1.0}, BASE).seeds == 0


@pytest.mark.parametrize("lost", [math.nan, math.inf, -math.inf, 1e101])
@pytest.mark.parametrize("seed", [2, 99])
def test_what_is_not_finite_is_never_accepted(lost, seed):
    for ours, theirs in (({**moved(0.1), seed: lost}, BASE), (moved(0.1), {**BASE, seed: lost})):
        for margin in (None, 1.0):
            assert non_inferiority(ours, theirs, margin=margin).judgement is Judgement.DIVERGED


@pytest.mark.parametrize(("seeds", "accepted"), [(3, False), (4, False), (5, True), (9, True)])
@pytest.mark.parametrize("by", [0.0, 0.1, -0.001])
def test_the_same_difference_for_all_seeds_needs_five(seeds, accepted, by):
    """As in the sign test: that n differences agree by chance has a probability of 2^-n."""
    base = {seed: 0.1 * (seed + 1) for seed in range(seeds)}
    found = non_inferiority({seed: value + by for seed, value in base.items()}, base, margin=0.01)
    assert found.accepted == accepted
    assert found.mean == pytest.approx(by)
    assert found.judgement is ((Judgement.BETTER if by > 0 else Judgement.AS_GOOD) if accepted else Judgement.UNCLEAR)


def test_a_constant_loss_beyond_the_margin_is_worse():
    base = {seed: 0.1 * (seed + 1) for seed in range(5)}
    found = non_inferiority({seed: value - 0.2 for seed, value in base.items()}, base, margin=0.1)
    assert found.judgement is Judgement.WORSE


def test_a_baseline_mean_of_zero_has_a_margin_of_zero():
    base = dict(enumerate([0.0] * 5))
    same = non_inferiority(base, base)
    assert (same.margin, same.accepted) == (0.0, True)
    assert non_inferiority({**base, 0: -1e-6}, base).judgement is Judgement.UNCLEAR
    assert non_inferiority({seed: 0.1 + 0.01 * seed for seed in base}, base).accepted


def test_rounding_does_not_decide():
    """A difference of exactly the margin, which floating point misses by its last digit."""
    base = {seed: 0.1 * (seed + 1) for seed in range(6)}
    ours = {seed: value - 0.3 for seed, value in base.items()}
    assert non_inferiority(ours, base, margin=0.3).accepted
    assert not non_inferiority(ours, base, margin=0.3 - 1e-9).accepted
    tenths = {seed: (0.1 + 0.2) * 10.0**seed for seed in range(3)}
    assert non_inferiority(tenths, {seed: 0.3 * 10.0**seed for seed in range(3)}).judgement is Judgement.UNCLEAR


@pytest.mark.parametrize("size", [1e100, 1e-100])
def test_metrics_of_any_size(size):
    base = {seed: size * (1 - 0.001 * seed) for seed in range(5)}
    ours = {seed: size * (1 - 0.0011 * seed) for seed in range(5)}
    assert non_inferiority(ours, base).accepted
    assert non_inferiority(base, {seed: -value for seed, value in base.items()}).accepted


def test_the_margin_is_that_of_all_seeds_of_the_baseline():
    few = {seed: BASE[seed] for seed in (0, 1, 2)}
    assert non_inferiority(few, BASE).margin == pytest.approx(0.01 * np.mean(list(BASE.values())))
