"""Borders of an analysis: little data, missing and diverged runs, constant figures."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitcycle._study.claims import (
    CheapestAcceptable,
    DivergedRuns,
    FewSeeds,
    PrecisionMatters,
    QualityFollowsCost,
    SchedulesAgainstBaseline,
)
from bitcycle._study.statistics import analyse
from bitcycle._study.wording import details, headline, recommendations
from tests.study.statistics_records import SPECS, claim, noise, only, record, rising, said, setting, study


def test_no_records_have_no_analysis():
    assert analyse([]) == []


def test_a_single_run():
    found = only([record("CR:3-8", 0, 0.9)])
    assert found.settings[0].on_front
    assert found.settings[0].quality.mean == 0.9
    assert math.isnan(found.settings[0].quality.error)
    assert all(math.isnan(c.value) and math.isnan(c.low) for c in found.correlations)
    assert found.equal_cost is None
    assert "at least two settings are needed" in said(found, QualityFollowsCost)
    assert found.advice == {"only choice": "CR"}
    assert "only setting" in recommendations(found)[0]


def test_a_single_seed_shows_nothing():
    found = only(study(lambda s, cost, seed: 0.8 + 0.1 * cost, seeds=1))
    others = [s.against for s in found.settings if s.against is not None]
    assert {c.outcome for c in others} == {"too few seeds"}
    assert all(math.isnan(c.p) and math.isnan(c.corrected) and math.isnan(c.difference.low) for c in others)
    assert math.isnan(found.equal_cost.p)
    assert {c.verdict for c in found.claims} == {"open"}
    assert "only 1 seed. One seed cannot separate effect from noise" in said(found, FewSeeds)
    assert "only 1 seed" in recommendations(found)[-1]


def test_few_seeds_say_what_they_leave_open():
    noisy = noise(0.01)
    found = only(study(lambda s, cost, seed: 0.9 + noisy(), seeds=3))
    text = said(found, FewSeeds)
    assert text.startswith("Every setting has only 3 seeds")
    assert "cover 75 % at best" in text
    assert "with 11 comparisons only a difference beyond 14.8 standard errors is significant" in text


def test_missing_seeds():
    records = [r for r in rising() if not (r.run.schedule.startswith("CR") and r.run.seed in (0, 2, 3))]
    records = [r for r in records if not (r.run.schedule.startswith("LR") and r.run.seed > 0)]
    found = only(records)
    assert setting(found, "CR").against.pairs == 2
    assert setting(found, "LR").against.outcome == "too few seeds"
    assert "LR and CR have fewer than 5 seeds, down to 1" in said(found, FewSeeds)
    assert "not tested because of too few seeds: LR" in said(found, SchedulesAgainstBaseline)
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
    assert (against.pairs, against.outcome) == (0, "too few seeds")
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
    assert rr.against.outcome == "diverged"
    assert rr.acceptable.judgement == "diverged"
    assert math.isnan(rr.against.p)
    assert not math.isfinite(rr.against.difference.mean)
    assert [c.count for c in found.correlations] == [11, 55, 11, 55]
    assert claim(found, DivergedRuns, diverged={"RR": 2}, runs=60).verdict == "supported"
    assert said(found, DivergedRuns).startswith("2 of 60 runs diverged (2 of RR)")
    assert "not tested because runs diverged: RR" in said(found, SchedulesAgainstBaseline)
    assert found.equal_cost.pairs[0][:2] == ("ETH", "ER")


@pytest.mark.parametrize("lost", ["CR:3-8:cycles=8", "static:8"])
def test_a_run_that_diverged_counts_whether_its_seed_is_shared_or_not(lost):
    records = [record("static:8", seed, 0.9 + 0.001 * seed) for seed in range(5)]
    records += [record("CR:3-8:cycles=8", seed, 0.91 + 0.0011 * seed) for seed in range(5)]
    found = only([*records, record(lost, 9, math.nan)])
    cr = setting(found, "CR")
    assert (cr.against.outcome, cr.acceptable.judgement) == ("diverged", "diverged")
    assert math.isnan(cr.against.difference.mean)
    assert claim(found, SchedulesAgainstBaseline).reasons == ("runs diverged",)


def test_a_diverged_baseline_leaves_nothing_to_compare_with():
    records = [replace(r, test=math.nan) if r.run.schedule == "static:8" else r for r in rising()]
    found = only(records)
    assert {s.against.outcome for s in found.settings if s.against} == {"diverged"}
    assert {s.acceptable.judgement for s in found.settings if s.acceptable} == {"diverged"}
    assert claim(found, DivergedRuns, diverged={"static 8": 5}).baseline == "static 8"
    assert "The baseline static 8 is among them" in said(found, DivergedRuns)
    assert "cannot be tested: runs diverged" in said(found, SchedulesAgainstBaseline)
    cheapest = claim(found, CheapestAcceptable)
    assert (cheapest.verdict, cheapest.reasons) == ("open", ("runs of the baseline diverged",))
    assert headline(cheapest, found).endswith("runs of the baseline diverged")
    assert "not tested against" in recommendations(found)[0]


def test_a_lowest_width_at_which_all_runs_diverge_tells_that_precision_matters():
    records = study(lambda s, cost, seed: 90.0 + seed, higher_is_better=False)
    records = [replace(r, test=math.inf) if r.run.schedule == "static:3" else r for r in records]
    found = only(records)
    assert claim(found, PrecisionMatters, diverged=5).verdict == "supported"
    assert "all 5 runs of static 3 diverged" in said(found, PrecisionMatters)


def test_everything_diverged():
    found = only(study(lambda s, cost, seed: math.nan))
    assert not any(s.on_front for s in found.settings)
    assert "60 of 60 runs diverged" in said(found, DivergedRuns)
    assert found.advice == {}
    assert "nothing to choose" in recommendations(found)[0]


def test_constant_quality_has_no_correlation():
    found = only(study(lambda s, cost, seed: 0.9))
    assert all(math.isnan(c.value) and math.isnan(c.low) and math.isnan(c.high) for c in found.correlations)
    text = said(found, QualityFollowsCost)
    assert "cannot be tested: every run has the same accuracy, 0.9" in text
    assert {s.against.p for s in found.settings if s.against} == {1.0}
    assert [s.label for s in found.settings if s.on_front] == ["static 3"]
    assert claim(found, CheapestAcceptable).label == "static 3"
    assert "the same for every seed" in said(found, CheapestAcceptable)


def test_a_constant_difference_is_not_certain():
    found = only(study(lambda s, cost, seed: 0.9 + 0.01 * seed - (0.05 if cost < 1 else 0), seeds=3))
    against = setting(found, "CR").against
    assert against.p == 0.25
    assert against.outcome == "no significant difference"


def test_settings_of_the_same_cost_have_no_correlation():
    found = only([record("static:8", seed, 0.5 + seed, 100) for seed in (0, 1)] + [record("CR:3-8", 0, 0.7, 100)])
    assert "all settings cost the same" in said(found, QualityFollowsCost)


def test_fewer_than_five_settings_have_no_interval_over_settings():
    noisy = noise(0.001)
    found = only(study(lambda s, cost, seed: cost + noisy(), SPECS[:4]))
    assert found.correlations[0].value == pytest.approx(1)
    assert math.isnan(found.correlations[0].low)
    assert claim(found, QualityFollowsCost).reasons == ("there are too few settings for an interval",)
    assert "so few settings" in said(found, QualityFollowsCost)


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
    assert 2 <= len(recommendations(found)) <= 4
    sentences = [*recommendations(found), *(words(c, found) for c in found.claims for words in (headline, details))]
    assert not any("nan" in sentence.split() for sentence in sentences)
    assert all((c.verdict == "open") == bool(c.reasons) for c in found.claims)
    lost = sum(not math.isfinite(metric) for metric in results.values())
    assert bool(lost) == any(isinstance(c, DivergedRuns) for c in found.claims)
