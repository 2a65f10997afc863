"""Strengths: the same curves as for bits, with values from 0 to 1."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitcycle.schedules import schedule, strength
from bitcycle.schedules import spec as grammar
from tests.schedules.strategies import strengths as every_strength

DOCUMENTED = re.findall(r"^\| ``([^`]+)`` ", grammar.__doc__.partition("A strength,")[2], re.MULTILINE)


@given(every_strength, st.integers(1, 60))
def test_strengths_round_trip_and_stay_between_0_and_1(s, total):
    assert strength(str(s)) == s
    assert hash(strength(str(s))) == hash(s)
    assert str(strength(str(s))) == str(s)
    values = s.values(np.arange(total), total)
    assert ((values >= 0) & (values <= 1)).all()
    assert [s(step, total) for step in range(total)] == values.tolist()
    assert s(total + 5, total) == s(total - 1, total) == values[-1]


@pytest.mark.parametrize("spec", [spec for spec in DOCUMENTED if not spec.startswith("call:")])
def test_documented_forms(spec):
    assert strength(str(strength(spec))) == strength(spec)


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("1.0", "1"),
        ("0.50", "0.5"),
        ("-0", "0"),
        ("linear-rise:0-1", "linear-rise"),
        ("linear-repeated:cycles=1", "linear-rise"),
        ("CR", "cosine-repeated:cycles=8"),
        ("rex-fall:0.2-1:constant=0.5", "rex-fall-h:0.2-1.0:constant=0.5"),
        ("join(0, 0.25, linear-rise, 0.75, 1.0)", "join(0, 0.25, linear-rise, 0.75, 1)"),
    ],
)
def test_canonical_specs(spec, canonical):
    assert str(strength(spec)) == canonical


def test_values():
    assert strength("cosine-fall:0.2-1.0").values(np.arange(4), 4) == pytest.approx([1.0, 0.882843, 0.6, 0.317157])
    assert strength("join(0, 0.25, linear-rise, 0.75, 1)").values(np.arange(8), 8).tolist() == [
        *(0, 0, 0, 0.25, 0.5, 0.75, 1, 1)
    ]


def a_strength_of_this_test(step, total):
    return min(1.0, step / 4)


def test_a_function_is_a_strength():
    s = strength(a_strength_of_this_test)
    assert str(s) == "call:a_strength_of_this_test"
    assert strength(str(s)) == s
    assert s(2, 10) == 0.5
    assert str(strength(lambda step, total: 0.5, name="half")) == "call:half"
    bad = strength(lambda step, total: float("nan"), name="bad")
    with pytest.raises(ValueError, match="the value of bad at step 3 of 10 must be a number from 0 .*, got nan"):
        bad(3, 10)
    with pytest.raises(ValueError, match="'<lambda>': give one"):
        strength(lambda step, total: 0.5)


@pytest.mark.parametrize("spec", ["static:8", "full", "deficit(3@0.0..0.5, 1)", "0.5:3", "1.5", "", "linear-rise:8"])
def test_what_is_no_strength_is_refused(spec):
    with pytest.raises(ValueError, match=r"strength|combinator|nothing may follow"):
        strength(spec)


def test_bits_and_strengths_are_not_mixed_up():
    with pytest.raises(ValueError, match="a spec such as 'linear-rise' or a function .* -> strength, got 'static:8'"):
        strength(schedule("static:8"))
    with pytest.raises(ValueError, match="a spec such as 'CR:3-8' or a function .* -> bits, got '0.5'"):
        schedule(strength(0.5))
