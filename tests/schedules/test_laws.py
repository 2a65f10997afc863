"""What holds for every schedule, whatever its parameters."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import bitcycle as bc
from bitcycle import schedules as sc
from bitcycle.schedules.operands import OperandSchedules
from tests.schedules.strategies import PROFILES, SPANS, cyclics, schedules

totals = st.integers(1, 500)


@given(schedules)
def test_a_spec_gives_the_same_schedule_back(s):
    again = bc.schedule(str(s))
    assert again == s
    assert hash(again) == hash(s)
    assert str(again) == str(s)


@given(schedules, totals)
def test_over_is_the_function_at_every_step_and_a_schedule_is_pure(s, total):
    for _ in range(2):
        assert s.over(total).tolist() == [s(step, total) for step in range(total)]


@given(schedules, totals)
def test_bounds(s, total):
    low, high = (32 if bits is None else bits for bits in s.limits(total))
    assert all(low <= (32 if bits is None else bits) <= high for bits in s.over(total))


@given(schedules, totals, st.integers(0, 10**6))
def test_past_the_end_it_stays_at_the_last_value(s, total, beyond):
    assert s(total + beyond, total) == s(total - 1, total)


@given(cyclics(shapes=("repeated", "triangular-h", "triangular-v")))
def test_repeated_and_triangular_end_at_q_max(s):
    total = 10_000 * s.cycles
    assert s(total - 1, total) == s.q_max


@given(cyclics(shapes=("triangular-h", "fall-h", "fall-v")))
def test_what_falls_starts_at_q_max(s):
    assert s(0, 1000) == s.q_max


@given(cyclics(shapes=("repeated",)))
def test_what_rises_starts_at_q_min(s):
    assert s(0, 1000) == s.q_min


@given(PROFILES, SPANS, st.integers(2, 400))
def test_time_mirror(profile, span, total):
    """A horizontal fall is the rise run backwards: step t falls as step total - t rises (up to a rounding tie)."""
    rise = sc.Cyclic(profile, "repeated", *span, cycles=1).over(total)
    fall = sc.Cyclic(profile, "fall-h", *span, cycles=1).over(total)
    z = np.arange(1, total) / total
    exact = span[0] + (span[1] - span[0]) * profile(z)
    no_tie = np.abs(exact - np.floor(exact) - 0.5) > 1e-9
    assert (fall[1:][::-1] == rise[1:])[no_tie].all()


@given(PROFILES, SPANS, st.integers(2, 400))
def test_height_mirror(profile, span, total):
    """A vertical fall and the rise add up to q_min + q_max at every step, up to a rounding tie."""
    rise = sc.Cyclic(profile, "repeated", *span, cycles=1).over(total)
    fall = sc.Cyclic(profile, "fall-v", *span, cycles=1).over(total)
    exact = span[0] + (span[1] - span[0]) * profile(np.arange(total) / total)
    no_tie = np.abs(exact - np.floor(exact) - 0.5) > 1e-9
    assert (rise + fall == sum(span))[no_tie].all()


@given(cyclics(shapes=("repeated", "triangular-h", "triangular-v")), st.integers(1, 60))
def test_periodic_when_cycles_divide_the_total(s, period):
    whole = period if s.shape == "repeated" else 2 * period
    bits = s.over(s.cycles * period)
    assert (bits.reshape(-1, whole) == bits[:whole]).all()


@given(cyclics(shapes=("repeated",)), totals)
def test_a_rise_never_falls(s, total):
    once = sc.Cyclic(s.profile, "repeated", s.q_min, s.q_max, cycles=1)
    assert (np.diff(once.over(total)) >= 0).all()


@given(schedules, totals)
def test_cost_lies_between_the_static_ones(s, total):
    low, top = (32 if bits is None else bits for bits in s.limits(total))
    high = OperandSchedules.of(s).largest(total) or 32  # the largest integer width
    most = 1 if top == high else 32**2 / high**2
    least = (low * low + 2 * low * high) / (3 * high * high)
    assert least - 1e-12 <= 1 - s.saving(total) <= most + 1e-12


@given(schedules, totals, st.floats(0, 0.99))
def test_a_delay_holds_q_max_and_then_follows(s, total, hold):
    held = min(round(hold * total), total - 1)
    bits = sc.Delay(hold, s).over(total).tolist()
    assert bits[:held] == [s.limits(total - held)[1]] * held
    assert bits[held:] == s.over(total - held).tolist()


@given(st.lists(schedules, min_size=2, max_size=4), st.integers(1, 50))
def test_a_join_is_its_parts_one_after_the_other(parts, length):
    at = tuple(length * i for i in range(1, len(parts)))
    joined = sc.Join(tuple(parts), at).over(length * len(parts)).tolist()
    assert joined == [bits for part in parts for bits in part.over(length).tolist()]


@given(schedules, st.integers(0, 99), st.integers(1, 100), st.integers(1, 16))
def test_a_deficit_changes_its_window_alone(s, start, length, bits):
    stop = min(start + length, 100)
    got = sc.Deficit((sc.Window(start, stop, bits),), s).over(100).tolist()
    expected = s.over(100).tolist()
    expected[start:stop] = [bits] * (stop - start)
    assert got == expected
