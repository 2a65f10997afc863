"""Advice from records: the cheapest setting that is not significantly worse than the baseline."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bitcycle.advice import advise
from bitcycle.advice.comparison import compare_with
from bitcycle.schedules import Constant


@dataclass
class RunConfig:
    schedule: str
    seed: int
    quality: float
    cost: float


def runs(spec, qualities, cost, first_seed=0):
    return [RunConfig(spec, first_seed + seed, quality, cost) for seed, quality in enumerate(qualities)]


BASE = runs("static:8", [0.90, 0.91, 0.89, 0.92, 0.90], 100.0)
AS_GOOD = runs("CT:3-8", [0.901, 0.909, 0.892, 0.918, 0.901], 63.0)
WORSE = runs("RTH:3-8", [0.85, 0.86, 0.85, 0.86, 0.84], 40.0)
SMALL = runs("ETH:3-8", [0.902, 0.911, 0.893, 0.921, 0.902], 82.0)


def test_the_cheapest_that_is_not_significantly_worse():
    advice = advise(records=[*WORSE, *BASE, *SMALL, *AS_GOOD])
    assert advice.spec == "CT:3-8:cycles=8"
    assert advice.saving == pytest.approx(0.37)
    assert advice.cheaper.spec == "RTH:3-8:cycles=8"
    assert "significantly worse than the baseline over 5 seeds: quality -0.052" in advice.cheaper.reason
    assert advice.better.spec == "ETH:3-8:cycles=8"
    assert any("is excluded with 95 % confidence" in reason for reason in advice.reasons)


def test_the_baseline_remains_if_nothing_holds():
    advice = advise(records=[*BASE, *WORSE])
    assert advice.spec == "static:8"
    assert advice.saving == 0
    assert advice.better is None
    assert any("the baseline itself remains" in reason for reason in advice.reasons)


def test_noise_does_not_make_a_setting_hold():
    """A setting that fails for one seed in three is not significantly worse, and yet nothing to recommend."""
    shaky = runs("RR:3-8", [0.90, 0.91, 0.2, 0.92, 0.3], 40.0)
    advice = advise(records=[*BASE, *AS_GOOD, *shaky])
    assert advice.spec == "CT:3-8:cycles=8"
    assert "not significantly worse than the baseline over 5 seeds" in advice.cheaper.reason
    assert "more than the 0.0114 by which its seeds scatter" in advice.cheaper.reason


def test_nothing_below_a_q_min_that_is_given_or_found():
    low = runs("CR:1-8", [run.quality for run in BASE], 30.0)
    records = [*BASE, *AS_GOOD, *low]
    assert advise(records=records).spec == "CR:1-8:cycles=8"
    advice = advise(records=records, q_min=3)
    assert advice.spec == "CT:3-8:cycles=8"
    assert "q_min: CR:1-8:cycles=8 goes below 3 bits." in advice.reasons
    found, nothing = (SimpleNamespace(q_min=q_min, reason="so it is") for q_min in (3, None))
    assert advise(records=records, range_test=found).spec == "CT:3-8:cycles=8"
    with pytest.raises(ValueError, match="found no q_min"):
        advise(records=records, range_test=nothing)


@pytest.mark.parametrize(("asked", "told"), [({"domain": "imag"}, "unknown domain"), ({"save": 40}, "save is a share")])
def test_questions_are_checked_with_records_too(asked, told):
    with pytest.raises(ValueError, match=told):
        advise(records=[*BASE, *AS_GOOD], **asked)


def test_too_few_seeds_are_never_recommended():
    advice = advise(records=[*BASE, *AS_GOOD, *runs("RR:3-8", [0.95, 0.95], 40.0)])
    assert advice.spec == "CT:3-8:cycles=8"
    assert advice.cheaper.spec == "RR:3-8:cycles=8"
    assert "shares 2 seeds with the baseline" in advice.cheaper.reason
    assert any("RR:3-8:cycles=8 cannot be judged" in reason for reason in advice.reasons)


def test_seeds_that_the_baseline_lacks_do_not_count():
    advice = advise(records=[*BASE, *AS_GOOD, *runs("RR:3-8", [0.95] * 5, 40.0, first_seed=3)])
    assert advice.spec == "CT:3-8:cycles=8"


def test_few_seeds_are_said():
    advice = advise(records=[*BASE[:3], *AS_GOOD[:3]])
    assert any("3 seeds are few" in reason for reason in advice.reasons)


def test_a_run_that_failed_counts_as_worse():
    failed = runs("RR:3-8", [0.95, float("nan"), 0.95], 40.0)
    advice = advise(records=[*BASE, *AS_GOOD, *failed])
    assert advice.spec == "CT:3-8:cycles=8"
    assert any("some of its runs failed" in reason for reason in advice.reasons)


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
        ([], "no run of the baseline static:8 to compare with; they hold none at all"),
        (AS_GOOD, "no run of the baseline static:8 to compare with; they hold CT:3-8:cycles=8"),
        ([*BASE[:2], *AS_GOOD], "2 seeds of the baseline static:8 tell nothing"),
        ([*BASE, *BASE[:1]], "two records of static:8 with seed 0"),
    ],
)
def test_records_that_do_not_do(records, told):
    with pytest.raises(ValueError, match=told):
        advise(records=records)


@given(st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=6), min_size=1, max_size=4), st.integers(0, 99))
def test_p_values_are_those_of_scipy(shifts, noise_seed):
    base = np.random.default_rng(noise_seed).normal(size=6)
    settings = [[base[i] + shift for i, shift in enumerate(row)] for row in shifts]
    records = runs("static:8", base, 9.0)
    for q_min, qualities in enumerate(settings, start=1):
        records += runs(f"CR:{q_min}-8", qualities, 5.0)
    plain = []
    for qualities in settings:
        difference = np.array(qualities) - base[: len(qualities)]
        if difference.std(ddof=1) < 1e-12:
            return
        plain.append(stats.ttest_1samp(difference, 0, alternative="less").pvalue)
    found = {str(c.schedule): c.p for c in compare_with(Constant(8), records)}
    for q_min, p in enumerate(plain, start=1):
        assert found[f"CR:{q_min}-8:cycles=8"] == pytest.approx(p, abs=1e-9)
