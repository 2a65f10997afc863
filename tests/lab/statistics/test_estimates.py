"""Estimates, comparisons with the baseline, the Pareto front, and the one answer of report and advice."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from bitcycle.lab.advice import advise
from bitcycle.lab.report.words import headline, recommendations
from bitcycle.lab.statistics.analysis import ClaimKind
from bitcycle.lab.statistics.estimates import compare, corrected, estimate, holm, paired_p, t_interval, tail
from bitcycle.lab.statistics.settings import on_front
from bitcycle.lab.studies.evidence import evidence_of
from tests.lab.statistics.made_up import claim, noise, only, record, setting, study

VALUES = st.floats(-1e6, 1e6).map(lambda value: round(value, 4))
PROBABILITIES = st.lists(st.floats(0, 1), max_size=20)
POINTS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=12)


# --- Estimates


@given(st.lists(VALUES, min_size=2, max_size=12))
def test_estimates_are_the_plain_formulas_and_the_interval_has_the_mean_inside(values):
    found = estimate(values)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert found.error == pytest.approx(stats.sem(values), abs=1e-9)
    assert found.low <= found.mean <= found.high
    assert min(values) - 1e-9 <= found.low
    assert found.high <= max(values) + 1e-9


@given(VALUES, st.integers(2, 9))
def test_equal_values_have_no_error(value, n):
    found = estimate([value] * n)
    assert (found.mean, found.error, found.low, found.high) == (value, 0, value, value)


@pytest.mark.parametrize("n", [4, 10, 40])
def test_intervals_are_those_of_scipy(n):
    values = np.random.default_rng(n).gamma(2, size=n)
    found = estimate(values)
    theirs = stats.bootstrap(
        (values,), np.mean, confidence_level=1 - 2 * tail(n), n_resamples=100_000, method="percentile", rng=1
    ).confidence_interval
    width = theirs.high - theirs.low
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=0.05 * width)


@pytest.mark.parametrize(("n", "least"), [(5, 0.87), (10, 0.91), (30, 0.92)])
def test_intervals_cover_what_they_say(n, least):
    generator = np.random.default_rng(7)
    found = [estimate(generator.normal(size=n)) for _ in range(400)]
    assert np.mean([e.low <= 0 <= e.high for e in found]) >= least


def test_estimates_of_what_is_not_finite():
    assert estimate([1.0, math.inf]).mean == math.inf
    assert math.isnan(estimate([math.inf, -math.inf]).mean)
    assert math.isnan(estimate([1.0, math.nan, 2.0]).mean)
    assert math.isnan(estimate([]).mean)
    assert all(math.isnan(x) for x in (estimate([1.0, math.inf]).low, estimate([1.0, math.inf]).error))


# --- The front


@given(POINTS)
def test_no_member_of_the_front_is_dominated_and_everything_else_is(points):
    costs, qualities = zip(*points, strict=True)
    members = on_front(costs, qualities)
    assert any(members)
    for i, (cost, quality) in enumerate(points):
        dominated = any(
            c <= cost and q >= quality and (c < cost or q > quality) for j, (c, q) in enumerate(points) if j != i
        )
        assert members[i] == (not dominated)


# --- Comparisons


@given(PROBABILITIES, st.integers(0, 20))
def test_holm_against_its_definition(p_values, place):
    """What is undefined stays undefined, and does not count."""
    place = min(place, len(p_values))
    raised = holm([*p_values[:place], math.nan, *p_values[place:]])
    assert math.isnan(raised.pop(place))
    m, ordered = len(p_values), sorted(p_values)
    for p, corrected_p in zip(p_values, raised, strict=True):
        place = max(i for i, other in enumerate(ordered) if other == p)
        assert corrected_p == max(min(1.0, (m - j) * ordered[j]) for j in range(place + 1))
        assert p <= corrected_p <= 1


@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=12))
def test_p_is_that_of_the_t_distribution(pairs):
    ours, theirs = np.array(pairs).T
    differences = ours - theirs
    assume(np.ptp(differences) > 1e-3)
    t = differences.mean() / (differences.std(ddof=1) / math.sqrt(len(pairs)))
    assert paired_p(ours, theirs) == pytest.approx(2 * stats.t.sf(abs(t), len(pairs) - 1), abs=1e-9)


@given(st.lists(VALUES, min_size=2, max_size=12), st.integers(-1000, 1000))
def test_the_same_difference_for_all_seeds_is_a_matter_of_signs(values, difference):
    ours = np.array(values)
    assert paired_p(ours + difference / 8, ours) == (1 if difference == 0 else 2.0 ** (1 - len(values)))


@given(st.dictionaries(st.integers(0, 9), VALUES), st.dictionaries(st.integers(0, 9), VALUES))
def test_comparisons_pair_by_seed_and_mirror(ours, theirs):
    there, back = compare(ours, theirs, 1), compare(theirs, ours, 1)
    turned = compare(ours, theirs, -1)
    assert there.pairs == back.pairs == len(ours.keys() & theirs.keys())
    assert math.isnan(there.p) == (there.pairs < 2)
    if there.pairs:
        assert back.difference.mean == turned.difference.mean == -there.difference.mean
    if there.pairs > 1:
        assert back.p == pytest.approx(there.p)
        assert turned.p == pytest.approx(there.p)


def test_outcomes():
    base = {seed: 0.5 + 0.01 * seed for seed in range(5)}
    steps = [0.001, -0.002, 0.0, 0.002, -0.001]
    moved = [{s: q + by + steps[s] for s, q in base.items()} for by in (0.1, -0.1, 0.0005)]
    one, lost = {0: 0.5}, {**base, 3: math.inf}
    found = corrected([compare(values, base, 1) for values in (*moved, one, lost)])
    assert [c.outcome for c in found] == ["better", "worse", "no significant difference", "too few seeds", "diverged"]
    assert [c.corrected for c in found[:3]] == holm([c.p for c in found[:3]])
    assert [c.outcome for c in corrected([compare(values, base, -1) for values in moved[:2]])] == ["worse", "better"]


def test_the_t_interval_is_that_of_scipy():
    ours, theirs = [0.9, 0.85, 0.93, 0.88], [0.91, 0.9, 0.92, 0.9]
    found = compare(dict(enumerate(ours)), dict(enumerate(theirs)), 1)
    low, high = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert (t_interval(found).low, t_interval(found).high) == pytest.approx((low, high))
    assert t_interval(compare({0: 1.0, 1: 1.1}, {0: 0.0, 1: 0.1001}, 1)).low > 0
    assert math.isnan(t_interval(compare({0: 1.0}, {0: 0.0}, 1)).low)


SPECS = ["static:8", "static:3", "CR:3-8:cycles=8", "RR:3-8:cycles=8", "ETH:3-8:cycles=8", "CT:3-8:cycles=8", "full"]
QUALITIES = st.one_of(
    st.floats(0.85, 0.95), st.sampled_from([0.9, 0.9, 0.91]), st.sampled_from([0.0, float("nan"), float("inf")])
)
MOSTLY_CLOSE = st.one_of(*[st.floats(0.899, 0.901)] * 12, QUALITIES)
RUNS = st.dictionaries(
    st.tuples(st.sampled_from(SPECS), st.integers(0, 6)),
    st.tuples(MOSTLY_CLOSE, st.sampled_from([None, None, None, 500, 500, 10**15])),
    min_size=12,
    max_size=49,
)


def by_the_report(records, margin):
    found = only(records, margin)
    cheapest = found.cheapest_acceptable
    assert claimed(found) == (None if cheapest is None else cheapest.label)
    return None if cheapest is None else cheapest.condition.schedule


def claimed(analysis):
    claims = [each for each in analysis.claims if each.kind == ClaimKind.CHEAPEST_ACCEPTABLE]
    return claims[0].about if claims else None


def by_the_advisor(records, margin):
    try:
        advice = advise(records=map(evidence_of, records), margin=margin)
    except ValueError as refusal:
        if not any(words in str(refusal) for words in ("needs at least 3 seeds", "diverged")):
            raise
        return None
    return None if advice.spec == "static:8" else advice.spec


@given(RUNS, st.booleans(), st.sampled_from([None, None, 0.0, 0.001, 0.02]))
def test_report_and_advisor_agree(runs, higher_is_better, margin):
    runs.setdefault(("static:8", 0), (0.9, None))
    records = [record(spec, seed, q, cost, higher_is_better) for (spec, seed), (q, cost) in runs.items()]
    assert by_the_report(records, margin) == by_the_advisor(records, margin)


def test_perplexity_is_shown_with_its_own_sign():
    noisy = noise(0.1)
    records = study(lambda s, cost, seed: 90 + (0.4 if cost < 1 else 0) + noisy(), higher_is_better=False)
    found = only(records)
    assert setting(found, "static 3").acceptable.mean < 0
    text = headline(claim(found, ClaimKind.CHEAPEST_ACCEPTABLE), found)
    assert "static 3, 70 % less cost" in text
    assert "(difference +0." in text


def test_the_margin_is_checked():
    with pytest.raises(ValueError, match="margin must be a finite number from 0 up"):
        only(study(lambda s, cost, seed: 0.9), margin=-1)


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_give_no_recommendation(seeds):
    """The advisor refuses them as well."""
    records = [
        record(spec, seed, quality + 0.01 * seed, bitops)
        for spec, quality, bitops in (("static:2", 0.4, 100), ("CR:2-8:cycles=8", 0.8, 500), ("static:8", 0.9, 1000))
        for seed in range(seeds)
    ]
    assert recommendations(only(records))[0] == "Fewer than 3 seeds cannot support a recommendation."
    assert by_the_advisor(records, None) is None
