"""Steps counted without evaluating each of them: exactly what evaluation gives."""

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import bitcycle as bc
from bitcycle import schedules as sc
from bitcycle.schedules.base import Schedule
from tests.schedules.strategies import PROFILES, schedules


def evaluated(s, total, stop=None):
    return dict(Counter(s.over(total)[:stop].tolist()))


@settings(max_examples=300)
@given(schedules, st.integers(1, 5000), st.floats(0, 1))
def test_counts_are_those_of_the_steps(s, total, part):
    stop = max(1, round(part * total))
    assert s.histogram(total) == evaluated(s, total)
    assert s.histogram(total, stop) == evaluated(s, total, stop)


@given(PROFILES, st.sampled_from(["repeated", "fall-h", "fall-v"]), st.integers(1, 4), st.integers(0, 5), st.data())
def test_any_part_of_a_long_cycle(profile, shape, low, span, data):
    s = sc.Cyclic(profile, shape, low, low + span, cycles=1)
    total = data.draw(st.integers(1000, 100_000))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, total)] * 2)))
    counts = {width: n for width, n in s.count_widths(start, stop, total).items() if n}
    assert counts == dict(Counter(s.over(total)[start:stop].tolist()))


@pytest.mark.parametrize("name", sc.TEN)
@pytest.mark.parametrize("total", [64_000, 1_234_567])
def test_the_ten_over_whole_trainings(name, total):
    s = bc.schedule(name, bits=(3, 8))
    assert s.histogram(total) == evaluated(s, total)
    assert s.histogram(total, total // 10) == evaluated(s, total, total // 10)


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


@pytest.mark.parametrize("name", sc.TEN)
def test_a_billion_steps_within_50_milliseconds(name):
    s = bc.schedule(name, bits=(3, 8))
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        s.saving(10**9)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.05
    assert sum(s.histogram(10**9).values()) == 10**9
    assert s.saving(10**9) == pytest.approx(s.saving(64_000), abs=1e-3)


def test_combinators_of_a_billion_steps_evaluate_few_of_them(monkeypatch):
    monkeypatch.setattr(Schedule, "count_widths", None)  # the way that evaluates every step
    s = bc.schedule("join(deficit(3@0.0..0.25, delay(0.1, CR:4-8)), 0.5, RTH:3-8)")
    assert sum(s.histogram(10**9).values()) == 10**9


def test_a_users_function_is_evaluated_at_every_step():
    calls = []

    def every_third(step, total):
        calls.append(step)
        return 4 if step % 3 else None

    assert bc.schedule(every_third).histogram(100_000, 70_000) == {None: 23_334, 4: 46_666}
    assert calls == list(range(70_000))


@pytest.fixture
def registered():
    """Register profiles for one test."""
    names = []

    def register(name, curve, **options):
        names.append(name)
        sc.profile(name, **options)(curve)

    yield register
    for name in names:
        sc.PROFILES.pop(name, None)


def test_float_errors_at_the_boundary_between_two_widths(registered):
    """Values that scatter around a curve by as much as float errors change nothing."""
    noise = np.random.default_rng(0).uniform(-1e-12, 1e-12, 65_536)

    def noisy(z):
        flat = np.clip(z, 0.0, 0.3) + np.clip(z - 0.6, 0.0, 0.4) / 0.4 * 0.7
        return np.where(z == 0, 0.0, np.clip(flat + noise[(z * 1e6).astype(int) % 65_536], 0, 1))

    registered("noisy_plateau", noisy, monotone=True)
    for bits in ((3, 8), (1, 6), (2, 12)):  # 3-8 has a boundary at 0.3, the height of the plateau
        for spec in ("noisy_plateau-repeated:{}-{}:cycles=2", "noisy_plateau-triangular-v:{}-{}:cycles=2"):
            s = bc.schedule(spec.format(*bits))
            assert s.histogram(200_000) == evaluated(s, 200_000)


@example(total=20_000)
@given(st.integers(1, 20_000))
def test_a_profile_that_is_not_declared_monotone_is_evaluated(total):
    @sc.profile("bump")
    def bump(z):
        return (1 - np.cos(3 * np.pi * z)) / 2

    s = bc.schedule("bump-repeated:3-8:cycles=2")
    assert s.histogram(total) == evaluated(s, total)
    del sc.PROFILES["bump"]


def test_a_profile_that_falls_cannot_be_declared_monotone(registered):
    with pytest.raises(ValueError, match="profile bump falls, although it is registered with monotone=True"):
        registered("bump", lambda z: (1 - np.cos(3 * np.pi * z)) / 2, monotone=True)
    assert "bump" not in sc.PROFILES


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
