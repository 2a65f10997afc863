"""Limits: inputs beyond them are refused in one line, at once; whatever is within them is exact."""

import math
import re
import sys

import numpy as np
import pytest

import bitcycle as bc
from bitcycle import schedules as sc
from bitcycle.grids import INTEGERS
from bitcycle.schedules import base
from bitcycle.schedules.profiles import Profile

STEPS = base.MAX_STEPS

REFUSED = {
    "RR:3-8:name=1": "profile rex has no parameter 'name'",
    "RR:3-8:cls=1": "no parameter 'cls'",
    "RR:3-8:constant=0.5:constant=0.5": "sets constant twice",
    "static:17": "bits must be from 1 to 16, got 17",
    f"static:{2**64 + 8}": "bits must be from 1 to 16, got 18446744073709551624",
    "static:" + "9" * 5000: "bits must be an integer, got '999",
    "CR:3-17": "q_max must be from 1 to 16, got 17",
    "deficit(17@0..5, full)": "bits must be from 1 to 16, got 17",
    "CR:3-8:cycles=1000001": "cycles must be from 1 to 1000000, got 1000001",
    f"LR:3-8:cycles={2**63}": "cycles must be from 1 to 1000000",
    f"delay({STEPS + 1}, full)": "a step of training must be 100000000 or less",
    "static:\N{ARABIC-INDIC DIGIT THREE}": "bits must be an integer",
    "static:1_0": "bits must be an integer",
    "CR:3-8:cycles=1_0": "cycles must be an integer",
    "ER:3-8:rate=nan": "rate must be a number, got 'nan'",
    "ER:3-8:rate=inf": "rate must be a number, got 'inf'",
    "ER:3-8:rate=1e999": "rate of profile exponential must be a finite number, got inf",
    "delay(nan, full)": "a moment of training must be",
    "delay(1e999, full)": "from 0.0 to 1.0, got inf",
    "delay(0.5_0, full)": "a moment of training must be",
    "deficit(1@" + " " * 4000: "unbalanced parentheses",
    "deficit(1@" + " " * 9000 + "x, full)": "a window is written",
    "delay(0.1, " * 1000 + "full" + ")" * 1000: "characters at most",
    "delay(0.1," * 51 + "full" + ")" * 51: "nested 50 deep at most",
    "join(" * 1999: "nested 50 deep at most",
    "f" * 10_001: "a spec may have 10,000 characters at most, got 10,001",
    "join(full)(full)": "may follow a closing parenthesis",
    "full, static:8": "commas separate the arguments",
    "delay(0.5, full))": "unbalanced parentheses",
    "delay(delay(0.5, full), full)": "where a window or a moment of training should be",
    "(full)": "unknown combinator ''",
    "join(full,,full)": "a moment of training must be",
    "a\nb": "unknown schedule 'a\\nb'",
}


@pytest.mark.parametrize("spec", REFUSED, ids=lambda spec: spec[:30])
def test_one_line_says_what_is_wrong(spec):
    with pytest.raises(ValueError, match=re.escape(REFUSED[spec])) as refused:
        bc.schedule(spec)
    message = str(refused.value)
    assert len(message) < 400
    assert len(message.splitlines()) == 1


def test_the_deepest_and_the_longest_spec():
    s = bc.schedule("delay(0.1, " * 50 + "CR:3-8" + ")" * 50)
    assert bc.schedule(str(s)) == s
    assert s(0, 10) == 8
    with pytest.raises(ValueError, match="nested 50 deep at most"):
        sc.Delay(0.1, s)
    many = bc.schedule("deficit(" + ",".join(f"3@{2 * i}..{2 * i + 1}" for i in range(700)) + ",full)")
    assert len(str(many)) < 10_000
    assert bc.schedule(str(many)) == many
    assert many.histogram(2000) == {None: 1300, 3: 700}


def test_no_schedule_has_a_spec_that_cannot_be_read():
    short = "join(" + ",".join(f"CR,{i + 1}" for i in range(900)) + ",CR)"
    with pytest.raises(ValueError, match="10,000 characters at most, got 1"):
        bc.schedule(short, bits=(3, 8))


def test_equal_schedules_have_equal_specs():
    assert str(bc.schedule("delay(-0.0, full)")) == str(bc.schedule("delay(0.0, full)"))
    assert str(bc.schedule("RR:3-8:constant=-0")) == str(bc.schedule("RR:3-8:constant=0"))


@pytest.mark.parametrize("shape", ["repeated", "triangular-h", "triangular-v"])
def test_the_largest_numbers_are_computed_exactly(shape):
    s = sc.Cyclic(Profile.of("linear"), shape, 1, 16, cycles=base.MAX_CYCLES)
    for step in (0, 1, 999_999, STEPS // 3, STEPS - 1):
        cycle, rest = divmod(step * base.MAX_CYCLES, STEPS)
        z = rest / STEPS
        rises = shape == "repeated" or cycle % 2
        assert s(step, STEPS) == round(1 + 15 * (z if rises else 1 - z))
    with pytest.raises(ValueError, match="total must be from 1 to 100000000"):
        s(0, STEPS + 1)


def test_nested_deficits_are_evaluated_in_polynomial_time():
    spec = "static:8"
    for level in range(40):
        spec = f"deficit(1@{4 * level}..{4 * level + 1}, 2@{4 * level + 2}..{4 * level + 3}, {spec})"
    s = bc.schedule(spec)
    assert s.limits(200) == (1, 8)
    assert s.histogram(200) == {1: 40, 2: 40, 8: 120}


def test_layers_and_schedules_have_the_same_largest_width():
    assert max(INTEGERS.widths) == base.MAX_BITS


def test_a_function_that_gives_a_width_beyond_the_limit():
    with pytest.raises(ValueError, match="at step 0 of 5 must be from 1 to 16, got 2000"):
        bc.schedule(lambda step, total: 2000, name="too_many")(0, 5)


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**400, -(10**400), np.float64("nan"), "1", True, None])
def test_parameters_are_finite_numbers(value):
    with pytest.raises(ValueError, match="rate of profile exponential must be a finite number"):
        Profile.of("exponential", rate=value)


def test_parameters_may_have_any_name_but_cycles():
    def curve(z, name=1.0, cls=1.0, self=1.0):
        return z * name * cls * self

    try:
        sc.profile("freely_named")(curve)
        s = bc.schedule("freely_named-rise:3-8:name=0.5:cls=0.5")
        assert bc.schedule(str(s)) == s
    finally:
        sc.PROFILES.pop("freely_named", None)
    for wrong, message in (
        (lambda z, cycles=1.0: z, "must not have a parameter named cycles"),
        (lambda z, power: z, "must have a number as its default"),
        (lambda z, power="2": z, "must have a number as its default"),
        (lambda z, *powers: z, "must have a number as its default"),
    ):
        with pytest.raises(ValueError, match=message):
            sc.profile("wrongly_named")(wrong)
        assert "wrongly_named" not in sc.PROFILES


def test_arguments_beyond_the_limits():
    for arguments in ({"bits": (3, 10**30)}, {"bits": (3, 8), "cycles": 10**5000}, {"bits": (-(10**5000), 3)}):
        with pytest.raises(ValueError, match="must be"):
            bc.schedule("CR", **arguments)
    assert 10 ** sys.get_int_max_str_digits() > 0  # such integers have no decimal text
    with pytest.raises(ValueError, match="step must be 0 or more, got an integer of more than 60 digits"):
        bc.schedule("full")(-(10**5000), 10)
