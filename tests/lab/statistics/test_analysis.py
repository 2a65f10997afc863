"""The analysis of a study: settings, claims and labels, and what holds at the borders."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitcycle.lab.report.words import details, headline, recommendations
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.statistics import analyse
from bitcycle.lab.statistics.analysis import ClaimKind
from bitcycle.lab.statistics.settings import labels
from bitcycle.schedules import schedule
from tests.lab.statistics.made_up import SPECS, claim, noise, only, record, rising, said, setting, study
from tests.schedules.strategies import schedules


def same(one, other):
    """Equal in every figure, where NaN equals NaN."""
    return repr(one) == repr(other)


# --- What it holds


def test_an_analysis_describes_every_setting():
    records = rising()
    found = only(records)
    assert found.title == "graph, 160 steps"
    assert (found.metric, found.higher_is_better, found.baseline) == ("accuracy", True, "static 8")
    assert [s.bitops for s in found.settings] == sorted(s.bitops for s in found.settings)
    assert {s.label for s in found.settings} == {
        "full",
        "static 8",
        "static 3",
        *(spec[:3].strip(":3") for spec in SPECS[2:]),
    }
    cr = setting(found, "CR")
    own = [r.test for r in records if r.run.schedule.startswith("CR")]
    assert cr.qualities == dict(enumerate(own))
    assert cr.quality.mean == pytest.approx(np.mean(own))
    assert cr.early_bits == schedule("CR:3-8").mean_bits(160, 0.1)
    assert cr.relative_cost == pytest.approx(1 - schedule("CR:3-8").saving(160))
    assert (cr.group, cr.baseline, cr.seconds) == ("medium", False, 2.0)
    static = setting(found, "static 3")
    assert (static.group, static.baseline, static.mean_bits) == (None, True, 3)
    assert setting(found, "static 8").against is None
    assert sum(s.against is None for s in found.settings) == 1


def test_each_question_has_its_own_analysis():
    records = [
        record("static:8", seed, 0.9, options={"aggregation": how}) for how in ("quantized", "full") for seed in (0, 1)
    ]
    found = analyse([*records, record("static:8", 0, 0.9, model="gat", steps=300)])
    assert [a.title for a in found] == [
        "graph, 160 steps, aggregation=full",
        "graph, 160 steps, aggregation=quantized",
        "graph, model gat, 300 steps",
    ]
    assert [len(a.settings[0].qualities) for a in found] == [2, 2, 1]
    assert len({a.comparison_group for a in found}) == len(found)


@pytest.mark.parametrize(
    "other", [{"evaluate_at": "current"}, {"diagnostics": True}, {"source": "1f2e"}, {"fingerprint": "3d4c"}]
)
def test_each_question_has_its_own_title(other):
    found = analyse([record("static:8", 0, 0.9), record("static:8", 0, 0.9, **other)])
    assert len({each.title for each in found}) == 2
    assert found[0].title == "graph, 160 steps"


def test_the_order_of_records_does_not_matter():
    records = [*rising(), record("CR:3-8", 0, math.nan, steps=300), record("static:8", 0, 0.5, steps=300)]
    shuffled = list(records)
    random.Random(0).shuffle(shuffled)
    assert same(analyse(records), analyse(shuffled))
    assert analyse([]) == []


def test_two_results_for_one_run_are_refused():
    records = rising()
    with pytest.raises(ValueError, match="two results for the run static:8 with seed 3"):
        analyse([*records, replace(records[3], test=0.1)])


def test_runs_of_one_question_have_one_metric():
    with pytest.raises(ValueError, match="no metric in common: accuracy and perplexity"):
        analyse([record("static:8", 0, 0.9), record("static:8", 1, 9.0, higher_is_better=False)])


def test_a_lower_metric_that_is_better_mirrors_everything():
    up = only(rising())
    down = only([replace(r, test=-r.test, higher_is_better=False) for r in rising()])
    for one, other in zip(up.settings, down.settings, strict=True):
        assert other.quality.mean == -one.quality.mean
        assert (other.quality.low, other.quality.high) == pytest.approx((-one.quality.high, -one.quality.low))
        assert (other.label, other.on_front) == (one.label, one.on_front)
        if one.against is not None:
            assert other.against == one.against
    assert down.correlations == up.correlations
    assert down.equal_cost == up.equal_cost
    assert [c.verdict for c in down.claims] == [c.verdict for c in up.claims]


# --- The baseline


@pytest.mark.parametrize(
    ("specs", "baseline"),
    [
        (["static:3", "static:8", "full", "CR:3-8"], "static 8"),
        (["full", "CR:3-8"], "full"),
        (["CR:3-8", "LR:3-8"], None),
    ],
)
def test_the_baseline_is_the_widest_static_setting_else_full_precision(specs, baseline):
    found = only([record(spec, seed, 0.9 + 0.01 * seed) for spec in specs for seed in range(3)])
    assert found.baseline == baseline
    assert all((s.against is None) == (baseline in (None, s.label)) for s in found.settings)
    if baseline is None:
        assert all(math.isnan(s.relative_cost) for s in found.settings)
    else:
        assert setting(found, baseline).relative_cost == 1


# --- Planted effects


def test_quality_that_rises_with_cost_is_supported():
    found = only(rising())
    assert claim(found, ClaimKind.QUALITY_FOLLOWS_COST).verdict == "supported"
    assert said(found, ClaimKind.QUALITY_FOLLOWS_COST).startswith(
        "Quality rises with cost: Spearman's correlation is 0."
    )
    assert all(c.low > 0 for c in found.correlations)
    assert [(c.over, c.count) for c in found.correlations] == [
        ("settings", 12),
        ("runs", 60),
    ]
    matters = claim(found, ClaimKind.PRECISION_MATTERS)
    assert (matters.about, matters.verdict) == ("static 3", "supported")
    assert said(found, ClaimKind.PRECISION_MATTERS).startswith("Precision matters here: static 3 is 0.0")
    assert setting(found, "RR").against.outcome == "worse"
    assert "RR" in said(found, ClaimKind.SCHEDULES_BEAT_BASELINE)


def test_quality_that_falls_with_cost_is_contradicted():
    noisy = noise(0.002)
    found = only(study(lambda s, cost, seed: 0.9 - 0.1 * cost + noisy()))
    assert claim(found, ClaimKind.QUALITY_FOLLOWS_COST).verdict == "contradicted"
    assert said(found, ClaimKind.QUALITY_FOLLOWS_COST).startswith("Quality falls as cost rises")
    assert claim(found, ClaimKind.SCHEDULES_BEAT_BASELINE).verdict == "supported"
    assert said(found, ClaimKind.SCHEDULES_BEAT_BASELINE).startswith("Some schedules beat static 8")
    assert claim(found, ClaimKind.PRECISION_MATTERS).verdict == "contradicted"
    assert said(found, ClaimKind.PRECISION_MATTERS).startswith("Low precision does no harm")
    cheapest = claim(found, ClaimKind.CHEAPEST_ACCEPTABLE)
    assert (cheapest.verdict, cheapest.about) == ("supported", "static 3")
    assert setting(found, "static 3").acceptable.lower > 0
    assert (
        recommendations(found)[-1] == "The cheapest setting also has the best mean quality: there is no trade-off here."
    )


def test_the_lowest_static_width_is_below_the_baseline_and_trained_like_it():
    def runs(spec, quality, **of_run):
        return [record(spec, seed, quality + 0.001 * seed * len(spec), **of_run) for seed in range(5)]

    base, cyclic = runs("static:8", 0.9), runs("CR:3-8:cycles=8", 0.89)
    other_grid = runs("static:8", 0.8, grid="mx") + runs("static:4", 0.7, grid="mx")
    apart = runs("static:2", 0.9, weights="static:8", activations="static:8")
    found = only([*base, *cyclic, *other_grid, *apart])
    assert not any(each.kind == ClaimKind.PRECISION_MATTERS for each in found.claims)
    found = only([*base, *cyclic, *other_grid, *apart, *runs("static:4", 0.6, backward_bits=8)])
    assert claim(found, ClaimKind.PRECISION_MATTERS).about == "static 4 integer"


def test_no_relation_is_open_and_no_difference_is_not_called_equality():
    noisy = noise(0.01, seed=1)
    found = only(study(lambda s, cost, seed: 0.9 + noisy()))
    assert {c.verdict for c in found.claims} == {"open"}
    assert claim(found, ClaimKind.QUALITY_FOLLOWS_COST).reasons == ("the interval includes zero",)
    assert said(found, ClaimKind.QUALITY_FOLLOWS_COST).startswith("No clear relation between quality and cost")
    against = claim(found, ClaimKind.SCHEDULES_BEAT_BASELINE)
    assert against.reasons == ("no significant difference",)
    assert said(found, ClaimKind.SCHEDULES_BEAT_BASELINE).startswith("No schedule is shown to beat static 8")
    cheapest = claim(found, ClaimKind.CHEAPEST_ACCEPTABLE)
    assert (cheapest.about, cheapest.reasons) == (None, ("a loss beyond the margin is not excluded",))
    low = setting(found, "static 3")
    bound = low.against.difference.mean - 2.1318 * low.against.difference.error  # t of four degrees of freedom
    assert low.acceptable.lower == pytest.approx(bound, abs=1e-6)
    assert low.acceptable.margin == pytest.approx(0.01 * setting(found, "static 8").quality.mean)
    assert bound < -low.acceptable.margin
    assert f"within a margin of {low.acceptable.margin:.3g} in accuracy" in said(found, ClaimKind.CHEAPEST_ACCEPTABLE)
    assert said(found, ClaimKind.PRECISION_MATTERS).startswith("The effect of precision is not significant")


def test_a_correction_does_not_make_a_cheap_setting_acceptable():
    """Of twelve settings one is a bit worse: not significantly so after Holm's correction, but by its own test."""
    offsets = [0.002, -0.001, 0.0, 0.001, -0.002]

    def quality(spec, cost, seed):
        if spec == schedule("static:8"):
            return 0.9 + 0.01 * seed
        return 0.9 + 0.01 * seed + offsets[seed] - (0.002 if spec == schedule("static:3") else 0)

    found = only(study(quality), margin=0.003)
    lowest = setting(found, "static 3")
    assert (lowest.against.outcome, lowest.against.p < 0.05) == ("no significant difference", True)
    assert lowest.acceptable.judgement == "worse"
    cheapest = claim(found, ClaimKind.CHEAPEST_ACCEPTABLE)
    assert (cheapest.verdict, cheapest.about) == ("supported", found.settings[1].label)
    assert found.cheapest_acceptable is found.settings[1]
    assert "static 3" not in said(found, ClaimKind.CHEAPEST_ACCEPTABLE)
    assert only(study(quality)).cheapest_acceptable.label == "static 3"  # the default margin is wider


def test_the_cost_of_settings_that_diverged_does_not_count():
    costs = {f"{name}:3-8:cycles={n}": cost for name, cost in (("CR", 500), ("LR", 700)) for n in (2, 4, 8)}
    records = [record(spec, seed, cost / 1000 + 0.001 * seed, cost) for spec, cost in costs.items() for seed in (0, 1)]
    lost = [record("static:1", seed, math.nan, 100) for seed in (0, 1)]
    for found in (only(records), only([*records, *lost])):
        assert claim(found, ClaimKind.QUALITY_FOLLOWS_COST).reasons == ("the settings have too few different costs",)


def test_everything_cheaper_is_worse():
    noisy = noise(0.001)
    found = only(study(lambda s, cost, seed: 0.8 + 0.1 * cost + noisy()))
    assert claim(found, ClaimKind.SCHEDULES_BEAT_BASELINE).verdict == "contradicted"
    assert said(found, ClaimKind.SCHEDULES_BEAT_BASELINE).startswith("No schedule beats static 8")
    cheapest = claim(found, ClaimKind.CHEAPEST_ACCEPTABLE)
    assert cheapest.verdict == "contradicted"
    assert {s.acceptable.judgement for s in found.cheaper} == {"worse"}
    assert [a.split(":")[0] for a in recommendations(found)] == ["Lowest cost", "Balance", "Best quality"]


def test_a_single_run():
    found = only([record("CR:3-8", 0, 0.9)])
    assert found.settings[0].on_front
    assert found.settings[0].quality.mean == 0.9
    assert math.isnan(found.settings[0].quality.error)
    assert all(math.isnan(c.value) and math.isnan(c.low) for c in found.correlations)
    assert found.equal_cost is None
    assert "at least two settings are needed" in said(found, ClaimKind.QUALITY_FOLLOWS_COST)
    assert found.advice == {"only choice": "CR"}
    assert "only setting" in recommendations(found)[0]


def test_a_single_seed_shows_nothing():
    found = only(study(lambda s, cost, seed: 0.8 + 0.1 * cost, seeds=1))
    others = [s.against for s in found.settings if s.against is not None]
    assert {c.outcome for c in others} == {"too few seeds"}
    assert all(math.isnan(c.p) and math.isnan(c.corrected) and math.isnan(c.difference.low) for c in others)
    assert math.isnan(found.equal_cost.p)
    assert {c.verdict for c in found.claims} == {"open"}
    assert "only 1 seed. One seed cannot separate effect from noise" in said(found, ClaimKind.FEW_SEEDS)
    assert "only 1 seed" in recommendations(found)[-1]


def test_missing_seeds():
    records = [r for r in rising() if not (r.run.schedule.startswith("CR") and r.run.seed in (0, 2, 3))]
    records = [r for r in records if not (r.run.schedule.startswith("LR") and r.run.seed > 0)]
    found = only(records)
    assert setting(found, "CR").against.pairs == 2
    assert setting(found, "LR").against.outcome == "too few seeds"
    assert "LR and CR have fewer than 5 seeds, down to 1" in said(found, ClaimKind.FEW_SEEDS)
    assert "not tested because of too few seeds: LR" in said(found, ClaimKind.SCHEDULES_BEAT_BASELINE)
    assert [c.count for c in found.correlations] == [12, 53]
    assert found.correlations[0].low > 0
    assert math.isnan(found.equal_cost.p)  # seed 0 is missing from CR, all others from LR: no seed is shared by all


@pytest.mark.parametrize("lost", [math.nan, math.inf, 1e101])
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
    assert [c.count for c in found.correlations] == [11, 55]
    assert claim(found, ClaimKind.DIVERGED_RUNS).verdict == "supported"
    assert said(found, ClaimKind.DIVERGED_RUNS).startswith("2 of 60 runs diverged (2 of RR)")
    assert "not tested because runs diverged: RR" in said(found, ClaimKind.SCHEDULES_BEAT_BASELINE)
    assert found.equal_cost.pairs[0][:2] == ("ETH", "ER")


@pytest.mark.parametrize("lost", ["CR:3-8:cycles=8", "static:8"])
def test_a_run_that_diverged_counts_whether_its_seed_is_shared_or_not(lost):
    records = [record("static:8", seed, 0.9 + 0.001 * seed) for seed in range(5)]
    records += [record("CR:3-8:cycles=8", seed, 0.91 + 0.0011 * seed) for seed in range(5)]
    found = only([*records, record(lost, 9, math.nan)])
    cr = setting(found, "CR")
    assert (cr.against.outcome, cr.acceptable.judgement) == ("diverged", "diverged")
    assert math.isnan(cr.against.difference.mean)
    assert claim(found, ClaimKind.SCHEDULES_BEAT_BASELINE).reasons == ("runs diverged",)


def test_a_diverged_baseline_leaves_nothing_to_compare_with():
    records = [replace(r, test=math.nan) if r.run.schedule == "static:8" else r for r in rising()]
    found = only(records)
    assert {s.against.outcome for s in found.settings if s.against} == {"diverged"}
    assert {s.acceptable.judgement for s in found.settings if s.acceptable} == {"diverged"}
    assert "The baseline static 8 is among them" in said(found, ClaimKind.DIVERGED_RUNS)
    assert "cannot be tested: runs diverged" in said(found, ClaimKind.SCHEDULES_BEAT_BASELINE)
    cheapest = claim(found, ClaimKind.CHEAPEST_ACCEPTABLE)
    assert (cheapest.verdict, cheapest.reasons) == ("open", ("runs of the baseline diverged",))
    assert headline(cheapest, found).endswith("runs of the baseline diverged")
    assert "not tested against" in recommendations(found)[0]


def test_a_lowest_width_at_which_all_runs_diverge_tells_that_precision_matters():
    records = study(lambda s, cost, seed: 90.0 + seed, higher_is_better=False)
    records = [replace(r, test=math.inf) if r.run.schedule == "static:3" else r for r in records]
    found = only(records)
    assert claim(found, ClaimKind.PRECISION_MATTERS).verdict == "supported"
    assert "all 5 runs of static 3 diverged" in said(found, ClaimKind.PRECISION_MATTERS)


def test_constant_quality_has_no_correlation():
    found = only(study(lambda s, cost, seed: 0.9))
    assert all(math.isnan(c.value) and math.isnan(c.low) and math.isnan(c.high) for c in found.correlations)
    text = said(found, ClaimKind.QUALITY_FOLLOWS_COST)
    assert "cannot be tested: every run has the same accuracy, 0.9" in text
    assert {s.against.p for s in found.settings if s.against} == {1.0}
    assert [s.label for s in found.settings if s.on_front] == ["static 3"]
    assert claim(found, ClaimKind.CHEAPEST_ACCEPTABLE).about == "static 3"
    assert "the same for every seed" in said(found, ClaimKind.CHEAPEST_ACCEPTABLE)


def test_fewer_than_five_settings_have_no_interval_over_settings():
    noisy = noise(0.001)
    found = only(study(lambda s, cost, seed: cost + noisy(), SPECS[:4]))
    assert found.correlations[0].value == pytest.approx(1)
    assert math.isnan(found.correlations[0].low)
    assert claim(found, ClaimKind.QUALITY_FOLLOWS_COST).reasons == ("there are too few settings for an interval",)
    assert "so few settings" in said(found, ClaimKind.QUALITY_FOLLOWS_COST)


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
    lost = sum(not abs(metric) <= 1e100 for metric in results.values())
    assert bool(lost) == any(c.kind == ClaimKind.DIVERGED_RUNS for c in found.claims)


def of(*specs):
    return labels([RunConfig("graph", spec, 100).condition for spec in specs])


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ((*SPECS, "full"), "static 8, static 3, CR, CT, LR, LT, ER, ETH, ETV, RR, RTH, RTV, full"),
        (("CR:3-8", "CR:3-6", "LR:3-8"), "CR, CR 3-6, LR"),
        (("CR:3-8", "CR:3-8:cycles=2", "CT:3-8"), "CR, CR n=2, CT"),
        (("CR:3-8", "CR:3-8:cycles=2"), "CR n=8, CR n=2"),
        (("CR:3-8", "LR:3-6:cycles=4"), "CR 3-8 n=8, LR 3-6 n=4"),  # no usual bits: each has its own
        (("CR:3-8", "CT:3-8", "LR:3-6"), "CR, CT, LR 3-6"),
        (("RR:3-8", "RR:3-8:constant=0.5"), "RR, RR constant=0.5"),
        (("linear-fall:3-8", "CR:3-8"), "linear-fall-h, CR"),
        (("CR:3-8", "delay(0.25, CR:3-8)"), "CR, delay(0.25, CR:3-8:cycles=8)"),
        (("call:mine", "deficit(3@0.0..0.5, static:8)"), "call:mine, deficit(3@0.0..0.5, static:8)"),
    ],
)
def test_labels(specs, expected):
    assert ", ".join(of(*specs)) == expected


def test_gradients_and_rates_where_they_differ():
    runs = [RunConfig("graph", "CR:3-8", 100, backward_bits=bits).condition for bits in ("max", 6, None)]
    assert labels(runs) == ["CR", "CR gradients 6", "CR gradients full"]
    assert labels(runs[1:2]) == ["CR"]
    assert labels(
        [RunConfig("graph", "static:8", 100, learning_rate=rate).condition for rate in ("", "restart@50")]
    ) == [
        "static 8",
        "static 8 restart@50",
    ]


def test_one_schedule_spelt_in_two_ways():
    runs = [RunConfig("graph", spec, 100).condition for spec in ("CR:3-8", "CR:3-8:cycles=8")]
    assert labels(runs) == [f"CR ({run.name})" for run in runs]


@given(st.lists(schedules, unique=True, min_size=1, max_size=8))
def test_labels_are_unique(found):
    made = of(*map(str, found))
    assert len(set(made)) == len(found)
