"""What holds for every piece of advice."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bitcycle.lab.advice import advise
from bitcycle.schedules import schedule

SPANS = st.tuples(st.integers(1, 9), st.integers(1, 4)).map(lambda pair: (pair[0], pair[0] + pair[1]))
GOALS = st.sampled_from(["cost", "balance", "quality"])
LONG = st.integers(1000, 100_000)


def saving(s, advice):
    return s.saving(advice.steps, advice.q_max, against=advice.q_max)


def check(advice, steps):
    assert schedule(advice.spec) == advice.schedule
    assert advice.saving == pytest.approx(saving(advice.schedule, advice))
    assert all(reason.source and reason.rule for reason in advice.reasons)
    assert advice.spec in str(advice)
    if advice.cheaper is not None:
        assert advice.cheaper.saving > advice.saving
        assert saving(schedule(advice.cheaper.spec), advice) == pytest.approx(advice.cheaper.saving)
    if advice.better is not None:
        assert advice.better.saving < advice.saving
    assert len(advice.code.splitlines()) == 3


@given(GOALS, SPANS, st.integers(1, 5000), st.booleans())
def test_advice_parses_and_lies_between_its_alternatives(goal, span, steps, fine_tuning):
    check(advise(goal, steps=steps, fine_tuning=fine_tuning, q_min=span[0], q_max=span[1]), steps)


@given(st.floats(0.001, 0.999), SPANS, LONG, st.booleans())
def test_a_budget_is_met_within_a_point_or_refused_with_the_nearest(save, span, steps, fine_tuning):
    q_min, q_max = span
    all_but_static = 1 - (q_min**2 + 2 * q_min * q_max) / (3 * q_max**2) - 0.01
    try:
        advice = advise(save=save, q_min=q_min, q_max=q_max, steps=steps, fine_tuning=fine_tuning)
    except ValueError as refusal:
        assert save > all_but_static
        nearest = float(str(refusal).partition("the most is ")[2].partition(" %")[0]) / 100
        assert all_but_static <= nearest < save
        advise(save=nearest, q_min=q_min, q_max=q_max, steps=steps, fine_tuning=fine_tuning)
    else:
        check(advice, steps)
        assert save <= advice.saving <= save + 0.01
        assert advice.schedule.limits(steps)[0] >= q_min


@given(st.floats(0.001, 0.8), st.sampled_from([None, "image", "detection", "graph", "language", "entailment"]))
def test_without_a_q_min_every_budget_up_to_that_of_two_bits_is_met(save, domain):
    advice = advise(save=save, domain=domain)
    assert save <= advice.saving <= save + 0.01
    warned = any(reason.source == "warning" for reason in advice.reasons)
    assert warned == (advice.schedule.limits(64_000)[0] < advise(domain=domain).schedule.q_min)


@given(st.floats(0.001, 0.6), st.integers(2, 300))
def test_in_a_short_training_a_budget_is_still_a_minimum(save, steps):
    most = schedule("RTH:3-8:cycles=8:constant=0.999" if steps >= 80 else "RTH:3-8:cycles=2:constant=0.999")
    assume(save <= most.saving(steps))
    advice = advise(save=save, q_min=3, steps=steps)
    assert advice.saving >= save
    overshoots = advice.saving > save + 0.01
    assert overshoots == any("no schedule comes closer to the budget" in reason.rule for reason in advice.reasons)
