"""Limits: inputs beyond them are refused in one line, at once; whatever is within them is exact."""

import math
import sys

import numpy as np
import pytest

import bitcycle as bc
from bitcycle import schedules as sc
from bitcycle.grids import INTEGERS
from bitcycle.schedules import base
from bitcycle.schedules.profiles import Profile

STEPS = base.MAX_STEPS


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


def test_layers_and_schedules_have_the_same_largest_width():
    assert max(INTEGERS.widths) == base.MAX_BITS


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
