"""Advice from records: the cheapest setting that is as good as the baseline."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from bitcycle.lab.advice import RunRecord, TrainingSettings, advise


@dataclass
class Run:
    schedule: str
    seed: int
    quality: float
    cost: float


def runs(spec, qualities, cost, first_seed=0):
    return [Run(spec, first_seed + seed, quality, cost) for seed, quality in enumerate(qualities)]


BASE = runs("static:8", [0.90, 0.91, 0.89, 0.92, 0.90], 100.0)
AS_GOOD = runs("CT:3-8", [0.901, 0.909, 0.892, 0.918, 0.901], 63.0)
WORSE = runs("RTH:3-8", [0.85, 0.86, 0.85, 0.86, 0.84], 40.0)
SMALL = runs("ETH:3-8", [0.902, 0.911, 0.893, 0.921, 0.902], 82.0)


def test_the_cheapest_that_is_as_good():
    advice = advise(records=[*WORSE, *BASE, *SMALL, *AS_GOOD])
    assert advice.spec == "CT:3-8:cycles=8"
    assert advice.saving == pytest.approx(0.37)
    assert advice.cheaper.spec == "RTH:3-8:cycles=8"
    assert "significantly worse than the baseline over 5 seeds: quality -0.052" in advice.cheaper.reason
    assert advice.better.spec == "ETH:3-8:cycles=8"
    assert any("within a loss of 0.00904" in reason.rule for reason in advice.reasons)


def test_the_baseline_is_the_answer_if_nothing_else_is_as_good():
    advice = advise(records=[*BASE, *WORSE])
    assert advice.spec == "static:8"
    assert advice.saving == 0
    assert advice.better is None
    assert any("the answer is static:8 itself" in reason.rule for reason in advice.reasons)


def test_noise_does_not_make_a_setting_acceptable():
    """A setting that fails for one seed in three is not significantly worse, and yet nothing to recommend."""
    shaky = runs("RR:3-8", [0.90, 0.91, 0.2, 0.92, 0.3], 40.0)
    advice = advise(records=[*BASE, *AS_GOOD, *shaky])
    assert advice.spec == "CT:3-8:cycles=8"
    assert "not shown to be as good as the baseline over 5 seeds" in advice.cheaper.reason
    assert "(acceptable: -0.00904)" in advice.cheaper.reason


def test_nothing_below_a_q_min_that_is_given_or_found():
    low = runs("CR:1-8", [run.quality for run in BASE], 30.0)
    records = [*BASE, *AS_GOOD, *low]
    assert advise(records=records).spec == "CR:1-8:cycles=8"
    advice = advise(records=records, q_min=3)
    assert advice.spec == "CT:3-8:cycles=8"
    assert "q_min: CR:1-8:cycles=8 goes below 3 bits" in map(str, advice.reasons)
    found, nothing = (SimpleNamespace(q_min=q_min, reason="so it is") for q_min in (3, None))
    assert advise(records=records, range_test=found).spec == "CT:3-8:cycles=8"
    with pytest.raises(ValueError, match="found no q_min"):
        advise(records=records, range_test=nothing)


@pytest.mark.parametrize(
    ("asked", "told"), [({"domain": "imag"}, "unknown domain"), ({"save": 40}, "save must be a share")]
)
def test_questions_are_checked_with_records_too(asked, told):
    with pytest.raises(ValueError, match=told):
        advise(records=[*BASE, *AS_GOOD], **asked)


@pytest.mark.parametrize("goal", ["cost", "quality"])
def test_a_goal_is_not_ignored(goal):
    with pytest.raises(ValueError, match=f"the goal '{goal}' is for advice without records"):
        advise(goal, records=[*BASE, *AS_GOOD])


def test_runs_of_one_schedule_are_of_one_kind():
    mixed = [
        RunRecord(run.schedule, run.seed, run.quality, run.cost, TrainingSettings(4 + run.seed)) for run in AS_GOOD
    ]
    with pytest.raises(ValueError, match="the records of CT:3-8 differ in more than the seed"):
        advise(records=[*BASE, *mixed])


def test_too_few_seeds_are_never_recommended():
    advice = advise(records=[*BASE, *AS_GOOD, *runs("RR:3-8", [0.95, 0.95], 40.0)])
    assert advice.spec == "CT:3-8:cycles=8"
    assert advice.cheaper.spec == "RR:3-8:cycles=8"
    assert "shares 2 seeds with the baseline" in advice.cheaper.reason
    assert any("RR:3-8:cycles=8 is not tested" in reason.rule for reason in advice.reasons)


def test_seeds_that_the_baseline_lacks_do_not_count():
    advice = advise(records=[*BASE, *AS_GOOD, *runs("RR:3-8", [0.95] * 5, 40.0, first_seed=3)])
    assert advice.spec == "CT:3-8:cycles=8"


def test_few_seeds_are_said():
    advice = advise(records=[*BASE[:3], *AS_GOOD[:3]])
    assert any("only 3 seeds" in reason.rule for reason in advice.reasons)


def test_a_run_that_diverged_is_not_acceptable():
    failed = runs("RR:3-8", [0.95, float("nan"), 0.95], 40.0)
    advice = advise(records=[*BASE, *AS_GOOD, *failed])
    assert advice.spec == "CT:3-8:cycles=8"
    assert any("some of its runs diverged" in reason.rule for reason in advice.reasons)


def test_equal_differences_have_no_spread_to_divide_by():
    equal = runs("RR:3-8", [run.quality for run in BASE], 40.0)
    assert advise(records=[*BASE, *equal]).spec == "RR:3-8:cycles=8"
    lower = runs("RR:3-8", [0.5] * 3, 40.0)
    assert advise(records=[*runs("static:8", [0.9] * 3, 100.0), *lower]).spec == "static:8"


def test_a_budget_restricts_the_evidence():
    records = [*BASE, *AS_GOOD, *WORSE, *SMALL]
    assert advise(records=records, save=0.3).spec == "CT:3-8:cycles=8"
    with pytest.raises(ValueError, match="saves 50 %: the most is 37 %, by CT:3-8:cycles=8"):
        advise(records=records, save=0.5)


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([], "no run of the baseline static:8 to compare with; they contain none at all"),
        (AS_GOOD, "no run of the baseline static:8 to compare with; they contain CT:3-8:cycles=8"),
        ([*BASE[:2], *AS_GOOD], "the baseline static:8 needs at least 3 seeds for a comparison, got 2"),
        ([*BASE, *BASE[:1]], "two records of static:8 with seed 0"),
    ],
)
def test_records_that_do_not_do(records, told):
    with pytest.raises(ValueError, match=told):
        advise(records=records)


def test_a_baseline_that_diverged_is_nothing_to_compare_with():
    with pytest.raises(ValueError, match="some runs of the baseline static:8 diverged"):
        advise(records=[*runs("static:8", [0.9, float("inf"), 0.9], 100.0), *AS_GOOD])


def test_the_margin_decides():
    records = [*BASE, *AS_GOOD, *SMALL]
    assert advise(records=records).spec == "CT:3-8:cycles=8"
    strict = advise(records=records, margin=0.0005)
    assert strict.spec == "ETH:3-8:cycles=8"
    assert "not shown to be as good" in strict.cheaper.reason
    assert advise(records=[*records, *WORSE], margin=0.1).spec == "RTH:3-8:cycles=8"


@pytest.mark.parametrize("margin", [-0.1, float("nan"), float("inf"), "1 %", True])
def test_margins_that_are_none(margin):
    with pytest.raises(ValueError, match="margin must be a finite number from 0 up"):
        advise(records=[*BASE, *AS_GOOD], margin=margin)


def test_a_margin_needs_records():
    with pytest.raises(ValueError, match="margin applies to records"):
        advise(margin=0.1)


def test_of_equal_cost_the_baseline_stays():
    assert advise(records=[*BASE, *runs("CT:3-8", [0.95] * 5, 100.0)]).spec == "static:8"


def test_evidence_is_what_records_are():
    records = [RunRecord(run.schedule, run.seed, run.quality, run.cost) for run in (*BASE, *AS_GOOD)]
    assert advise(records=records).as_dict() == advise(records=[*BASE, *AS_GOOD]).as_dict()
