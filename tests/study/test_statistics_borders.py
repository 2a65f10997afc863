"""Borders of an analysis: little data, missing and diverged runs, constant figures."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitcycle._study.statistics import analyse
from tests.study.statistics_records import SPECS, claim, noise, only, record, rising, setting, study


def test_no_records_have_no_analysis():
    assert analyse([]) == []


def test_a_single_run():
    found = only([record("CR:3-8", 0, 0.9)])
    assert found.settings[0].on_front
    assert found.settings[0].quality.mean == 0.9
    assert math.isnan(found.settings[0].quality.error)
    assert all(math.isnan(c.value) and math.isnan(c.low) for c in found.correlations)
    assert found.equal_cost is None
    assert "takes two settings" in claim(found, "rises with cost").text
    assert "only setting" in found.advice[0]


def test_a_single_seed_shows_nothing():
    found = only(study(lambda s, cost, seed: 0.8 + 0.1 * cost, seeds=1))
    others = [s.against for s in found.settings if s.against is not None]
    assert {c.verdict for c in others} == {"too few seeds"}
    assert all(math.isnan(c.p) and math.isnan(c.corrected) and math.isnan(c.difference.low) for c in others)
    assert math.isnan(found.equal_cost.p)
    assert {c.verdict for c in found.claims} == {"open"}
    assert "neither error nor test" in claim(found, "a single seed.").text
    assert "This rests on 1 seed" in found.advice[-1]


def test_few_seeds_say_what_they_leave_open():
    noisy = noise(0.01)
    found = only(study(lambda s, cost, seed: 0.9 + noisy(), seeds=3))
    text = claim(found, "Every setting has only 3 seeds").text
    assert "cover 75 % at best" in text
    assert "with 11 comparisons a difference is shown only beyond 14.8 standard errors" in text


def test_missing_seeds():
    records = [r for r in rising() if not (r.run.schedule.startswith("CR") and r.run.seed in (0, 2, 3))]
    records = [r for r in records if not (r.run.schedule.startswith("LR") and r.run.seed > 0)]
    found = only(records)
    assert setting(found, "CR").against.pairs == 2
    assert setting(found, "LR").against.verdict == "too few seeds"
    assert "LR and CR have fewer than 5 seeds, down to 1" in claim(found, "neither error").text
    assert "LR could not be tested, for too few seeds" in claim(found, "beat").text
    assert [c.count for c in found.correlations] == [12, 53, 12, 53]
    assert found.correlations[0].low > 0
    assert math.isnan(found.equal_cost.p)  # seed 0 is missing from CR, all others from LR: no seed is shared by all


def test_seeds_that_do_not_overlap_cannot_be_paired():
    records = [
        record("static:8", 0, 0.9),
        record("static:8", 1, 0.9),
        record("CR:3-8", 2, 0.9),
        record("CR:3-8", 3, 0.8),
    ]
    against = setting(only(records), "CR").against
    assert (against.pairs, against.verdict) == (0, "too few seeds")
    assert math.isnan(against.difference.mean)


@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_diverged_runs_are_never_laundered(lost):
    noisy = noise(1.0)
    records = study(lambda s, cost, seed: 90 - 10 * cost + noisy(), higher_is_better=False)
    records = [
        replace(r, test=lost) if r.run.schedule.startswith("RR") and r.run.seed in (1, 4) else r for r in records
    ]
    found = only(records)
    rr = setting(found, "RR")
    assert not math.isfinite(rr.quality.mean)
    assert math.isnan(rr.quality.error)
    assert not rr.on_front
    assert rr.against.verdict == "diverged"
    assert math.isnan(rr.against.p)
    assert not math.isfinite(rr.against.difference.mean)
    assert [c.count for c in found.correlations] == [11, 55, 11, 55]
    assert claim(found, "2 of 60 runs diverged (2 of RR)").verdict == "supported"
    assert "RR could not be tested, for runs that diverged" in claim(found, "static 8", "paired t test").text
    assert found.equal_cost.pairs[0][:2] == ("ETH", "ER")


def test_a_diverged_baseline_leaves_nothing_to_compare_with():
    records = [replace(r, test=math.nan) if r.run.schedule == "static:8" else r for r in rising()]
    found = only(records)
    assert {s.against.verdict for s in found.settings if s.against} == {"diverged"}
    assert "The baseline static 8 is among them" in claim(found, "diverged (5 of static 8)").text
    assert "none could be tested" in claim(found, "beats static 8").text
    assert claim(found, "does as well as static 8 cannot be told: runs of it diverged").verdict == "open"
    assert "not tested against" in found.advice[0]


def test_a_lowest_width_at_which_all_runs_diverge_tells_that_precision_matters():
    records = study(lambda s, cost, seed: 90.0 + seed, higher_is_better=False)
    records = [replace(r, test=math.inf) if r.run.schedule == "static:3" else r for r in records]
    assert claim(only(records), "all 5 runs of static 3 diverged").verdict == "supported"


def test_everything_diverged():
    found = only(study(lambda s, cost, seed: math.nan))
    assert not any(s.on_front for s in found.settings)
    assert "60 of 60 runs diverged" in claim(found, "diverged (").text
    assert "nothing to choose" in found.advice[0]


def test_constant_quality_has_no_correlation():
    found = only(study(lambda s, cost, seed: 0.9))
    assert all(math.isnan(c.value) and math.isnan(c.low) and math.isnan(c.high) for c in found.correlations)
    text = claim(found, "Whether quality rises with cost cannot be told").text
    assert "every run has the same accuracy, 0.9" in text
    assert {s.against.p for s in found.settings if s.against} == {1.0}
    assert [s.label for s in found.settings if s.on_front] == ["static 3"]
    assert "exactly as much for each seed" in claim(found, "The cheapest setting").text


def test_a_constant_difference_is_not_certain():
    found = only(study(lambda s, cost, seed: 0.9 + 0.01 * seed - (0.05 if cost < 1 else 0), seeds=3))
    against = setting(found, "CR").against
    assert against.p == 0.25
    assert against.verdict == "no difference shown"


def test_settings_of_the_same_cost_have_no_correlation():
    found = only([record("static:8", seed, 0.5 + seed, 100) for seed in (0, 1)] + [record("CR:3-8", 0, 0.7, 100)])
    assert "all settings cost the same" in claim(found, "rises with cost").text


def test_fewer_than_five_settings_have_no_interval_over_settings():
    noisy = noise(0.001)
    found = only(study(lambda s, cost, seed: cost + noisy(), SPECS[:4]))
    assert found.correlations[0].value == pytest.approx(1)
    assert math.isnan(found.correlations[0].low)
    assert "fewer than 5 settings" in claim(found, "rises with cost is open").text


def test_metrics_beyond_reason_raise_no_warning():
    found = only(
        study(lambda s, cost, seed: 1e308 * (1 - 0.01 * seed) if cost < 0.5 else 5.0 + seed, higher_is_better=False)
    )
    assert len(found.settings) == 12
    assert found.correlations[0].value > 0.5


def test_a_function_that_is_not_known_here_is_still_analysed():
    found = only([record("static:8", s, 0.9) for s in (0, 1)] + [record("call:elsewhere", s, 0.8, 5) for s in (0, 1)])
    unknown = setting(found, "call:elsewhere")
    assert math.isnan(unknown.mean_bits)
    assert (unknown.group, unknown.baseline) == (None, False)


ANY_METRIC = st.one_of(st.sampled_from([0.5, 0.75, math.nan, math.inf, -math.inf, 0.0, 1e300]), st.floats(0, 1))
ANY_SPEC = st.sampled_from([*SPECS, "full", "static:1", "CR:3-8:cycles=2", "CR:4-6", "delay(0.25, CR:3-8)"])


@given(st.dictionaries(st.tuples(ANY_SPEC, st.integers(0, 4)), ANY_METRIC, min_size=1, max_size=40), st.booleans())
def test_whatever_was_run_is_analysed_without_a_warning(results, higher_is_better):
    found = only([record(spec, seed, metric, None, higher_is_better) for (spec, seed), metric in results.items()])
    assert len({s.label for s in found.settings}) == len(found.settings)
    assert sum(len(s.qualities) for s in found.settings) == len(results)
    assert {c.verdict for c in found.claims} <= {"supported", "contradicted", "open"}
    assert 2 <= len(found.advice) <= 4
    assert not any("nan" in sentence.split() for sentence in found.advice)
    lost = sum(not math.isfinite(metric) for metric in results.values())
    assert bool(lost) == any("diverged (" in c.text for c in found.claims)
