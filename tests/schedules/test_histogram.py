"""Counts of steps: exactly what the evaluation of every step gives, and what follows from them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitcycle as bc
from bitcycle.schedules.base import MAX_STEPS
from bitcycle.schedules.operands import OperandSchedules
from tests.schedules.strategies import schedules


@given(schedules, st.integers(1, 5000))
def test_counts_are_those_of_the_steps(s, total):
    assert s.histogram(total) == dict(Counter(s.over(total).tolist()))


@given(schedules, st.integers(1, 3000))
def test_what_follows_from_counts_is_what_follows_from_widths(s, total):
    widths = [32 if bits is None else bits for bits in s.over(total).tolist()]
    high = OperandSchedules.of(s).largest(total) or 32
    assert s.mean_bits(total) == sum(widths) / total
    early = widths[: max(1, round(0.1 * total))]
    assert s.mean_bits(total, 0.1) == sum(early) / len(early)
    spent = sum(q * q + 2 * q * (32 if q == 32 else high) for q in widths)
    assert s.saving(total) == 1 - spent / (total * 3 * high * high)


def test_widths_ascend_and_full_precision_is_the_last():
    assert list(bc.schedule("join(full, 0.5, CR:3-5)").histogram(100)) == [3, 4, 5, None]


@pytest.mark.slow
def test_the_longest_training_is_counted():
    s = bc.schedule("LR:3-8")
    assert sum(s.histogram(MAX_STEPS).values()) == MAX_STEPS
    with pytest.raises(ValueError, match="total must be from 1 to 100000000, got 100000001"):
        s.histogram(MAX_STEPS + 1)


def test_misuse():
    with pytest.raises(ValueError, match="total must be 1 or more, got 0"):
        bc.schedule("CR:3-8").histogram(0)
    with pytest.raises(ValueError, match="above 0 and at most 1, got 1.5"):
        bc.schedule("CR:3-8").mean_bits(10, first=1.5)
