"""Counts of steps: exactly what the evaluation of every step gives."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitcycle as bc
from bitcycle import schedules as sc
from bitcycle.schedules.base import MAX_STEPS
from bitcycle.schedules.interface import Schedule
from tests.schedules.strategies import schedules


def evaluated(s, total, stop=None):
    return dict(Counter(s.over(total)[:stop].tolist()))


@given(schedules, st.integers(1, 5000), st.floats(0, 1))
def test_counts_are_those_of_the_steps(s, total, part):
    stop = max(1, round(part * total))
    assert s.histogram(total) == evaluated(s, total)
    assert s.histogram(total, stop) == evaluated(s, total, stop)


@given(schedules, st.integers(1, 3000))
def test_what_follows_from_counts_is_what_follows_from_widths(s, total):
    widths = [32 if bits is None else bits for bits in s.over(total).tolist()]
    high = s.baseline(total) or 32
    assert s.mean_bits(total) == sum(widths) / total
    early = widths[: max(1, round(0.1 * total))]
    assert s.mean_bits(total, 0.1) == sum(early) / len(early)
    spent = sum(q * q + 2 * q * (32 if q == 32 else high) for q in widths)
    assert s.relative_cost(total) == spent / (total * 3 * high * high)


def test_full_precision_comes_first_and_widths_ascend():
    assert list(bc.schedule("join(CR:3-5, 0.5, full)").histogram(100)) == [None, 3, 4, 5]


@pytest.mark.slow
def test_the_longest_training_is_counted():
    s = bc.schedule("LR:3-8")
    assert sum(s.histogram(MAX_STEPS).values()) == MAX_STEPS
    with pytest.raises(ValueError, match="total must be from 1 to 100000000, got 100000001"):
        s.histogram(MAX_STEPS + 1)


def test_combinators_count_their_parts(monkeypatch):
    """Static parts of a combination are not evaluated at all."""
    monkeypatch.setattr(Schedule, "count_widths", None)  # the way that evaluates every step
    s = bc.schedule("join(deficit(3@0.0..0.25, delay(0.1, static:8)), 0.5, static:5.5)")
    assert sum(s.histogram(MAX_STEPS).values()) == MAX_STEPS


def test_a_users_function_is_evaluated_at_every_step():
    calls = []

    def every_third(step, total):
        calls.append(step)
        return 4 if step % 3 else None

    assert bc.schedule(every_third).histogram(100_000, 70_000) == {None: 23_334, 4: 46_666}
    assert calls == list(range(70_000))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0,), "total must be 1 or more, got 0"), ((10, 0), "stop must be 1 or more"), ((10, 11), "at most total, 10")],
)
def test_misuse(arguments, message):
    with pytest.raises(ValueError, match=message):
        bc.schedule("CR:3-8").histogram(*arguments)


def test_groups_are_values_that_equal_their_names():
    group = bc.schedule("RR:3-8").group(64_000)
    assert group is sc.Group.LARGE
    assert group == "large"
    assert [str(g) for g in sc.Group] == ["large", "medium", "small"]
