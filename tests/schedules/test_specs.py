"""The grammar: every documented form, and every misuse with its message."""

import re
from functools import partial

import numpy as np
import pytest

import bitcycle as bc
from bitcycle import schedules as sc
from bitcycle.schedules import custom
from bitcycle.schedules import spec as grammar
from bitcycle.schedules.base import MAX_STEPS


def dip(step, total):
    return 3 if total // 3 <= step < 2 * total // 3 else 8


DOCUMENTED = re.findall(r"^\| ``([^`]+)`` ", grammar.__doc__.partition("A strength,")[0], re.MULTILINE)


def test_the_documentation_lists_every_form():
    assert len(DOCUMENTED) == 13


@pytest.mark.parametrize("spec", [s for s in DOCUMENTED if not s.startswith("call:")])
def test_documented_forms(spec):
    s = bc.schedule(spec)
    assert bc.schedule(str(s)) == s
    s.over(4000)


def test_the_ten_by_name_and_by_parts_are_equal():
    assert bc.schedule("CR", bits=(3, 8)) == bc.schedule("cosine-repeated:3-8:cycles=8")
    assert bc.schedule("RTV:3-8:cycles=2") == bc.schedule("rex-triangular-v:3-8:cycles=2")
    assert len({bc.schedule(name, bits=(3, 8)) for name in sc.TEN}) == 10


def test_bits_and_cycles_fill_what_is_left_open():
    assert bc.schedule("delay(0.1, CR)", bits=(4, 6), cycles=2) == bc.schedule("delay(0.1, CR:4-6:cycles=2)")
    assert bc.schedule("join(CR:3-6, 0.5, LT)", bits=(4, 8)) == bc.schedule("join(CR:3-6, 0.5, LT:4-8)")
    assert bc.schedule("CR", bits=(np.int64(3), np.int32(8))) == bc.schedule("CR:3-8")


def test_spaces_do_not_matter():
    assert bc.schedule(" join( static:8 ,0.5,  LR : 3-6 : cycles = 4 ) ") == bc.schedule(
        "join(static:8, 0.5, LR:3-6:cycles=4)"
    )


def test_full_precision_is_none():
    s = bc.schedule("full")
    assert s(0, 10) is None
    assert s.over(3).tolist() == [None, None, None]
    assert bc.schedule("join(full, 0.5, static:4)").over(4).tolist() == [None, None, 4, 4]


def test_a_single_fall_and_a_single_rise():
    assert bc.schedule("linear-fall:3-8").over(6).tolist() == [8, 7, 6, 6, 5, 4]
    assert bc.schedule("linear-rise:3-8").over(6).tolist() == [3, 4, 5, 6, 6, 7]
    assert bc.schedule("linear-rise:3-8") == bc.schedule("LR:3-8:cycles=1")


def test_a_users_function():
    s = bc.schedule(dip)
    assert s.over(9).tolist() == [8, 8, 8, 3, 3, 3, 8, 8, 8]
    assert str(s) == "call:dip"
    assert bc.schedule("call:dip") == s
    assert s.limits(9) == (3, 8)
    nested = bc.schedule("delay(0.5, call:dip)")
    assert bc.schedule(str(nested)) == nested
    named = bc.schedule(lambda step, total: 4 if step else None, name="full_then_4")
    assert bc.schedule("call:full_then_4") == named
    assert named.over(3).tolist() == [None, 4, 4]


class Bits:
    """A method and a callable object, with state."""

    def __init__(self, bits):
        self.bits = bits

    def at(self, step, total):
        return self.bits

    def __call__(self, step, total):
        return self.bits


def defined_again(bits=4):
    """Return a function with a new code object, as a notebook does that executes a cell again."""
    module = {}
    exec(f"def from_a_notebook(step, total, bits={bits}):\n    return bits", module)
    return module["from_a_notebook"]


def with_closure(bits):
    def from_a_closure(step, total):
        return bits

    return from_a_closure


def test_one_function_can_be_given_twice():
    bits = Bits(5)
    for make in (lambda: dip, lambda: bits.at, defined_again):
        assert bc.schedule(make()) == bc.schedule(make())
    assert bc.schedule(bits, name="five") == bc.schedule(bits, name="five")
    assert bc.schedule(dip, name="other_name_of_dip") != bc.schedule(dip)


@pytest.mark.parametrize("make", [lambda bits: Bits(bits).at, defined_again, with_closure])
def test_two_functions_of_one_name_are_refused(make, monkeypatch):
    monkeypatch.setattr(custom, "FUNCTIONS", {})
    first = bc.schedule(make(3))
    with pytest.raises(ValueError, match="another function is already named"):
        bc.schedule(make(8))
    second = bc.schedule(make(8), name="second")
    assert first != second
    assert [bc.schedule(str(s))(0, 1) for s in (first, second)] == [3, 8]


@pytest.mark.parametrize("name", ["a, b)", "", "x:y", 4])
def test_a_name_is_one_word(name):
    with pytest.raises(ValueError, match="needs a name of letters, digits and _ in specs, got") as refused:
        bc.schedule(dip, name=name)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("function", [lambda step, total: 4, partial(dip), Bits(4)])
def test_a_function_without_a_name_needs_one(function, monkeypatch):
    monkeypatch.setattr(custom, "FUNCTIONS", {})
    with pytest.raises(ValueError, match=r'got (\'<lambda>\'|None): give one, as in .*\(function, name="warm"\)'):
        bc.schedule(function)
    assert str(bc.schedule(function, name="warm")) == "call:warm"


def test_a_name_is_for_functions():
    for spec in ("CR:3-8", bc.schedule("CR:3-8"), 8):
        with pytest.raises(ValueError, match="name is for functions"):
            bc.schedule(spec, name="mine")


def test_a_profile_in_three_lines():
    @sc.profile("cubic")
    def cubic(z, power=3.0):
        return z**power

    s = bc.schedule("cubic-repeated:3-8:cycles=2:power=2")
    assert bc.schedule(str(s)) == s
    assert s.over(4).tolist() == [3, 4, 3, 4]
    del sc.PROFILES["cubic"]


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        (lambda z: 2 * z, "leaves"),
        (lambda z: z + 0.5, "leaves"),
        (lambda z: 0 * z, "does not grow"),
        (lambda z: 0.5, "one value for each"),
        (lambda z: z / 0 * 0, "leaves"),
    ],
)
def test_a_curve_that_is_not_a_profile_is_refused(curve, message):
    with pytest.raises(ValueError, match=message):
        sc.profile("broken")(curve)
    assert "broken" not in sc.PROFILES


MISUSE = {
    "CR": "CR needs bits: write 'CR:3-8' or give bits=(3, 8)",
    "cr:3-8": "did you mean 'CR'?",
    "?!": "expected full, static, CR",
    "": "unknown schedule",
    "CR:0-8": "q_min must be 1 or more, got 0",
    "CR:3.5-8": "q_min must be an integer, got '3.5'",
    "CR:8": "bits are written q_min-q_max",
    "CR:8-3": "q_min 8 is above q_max 3: give the smaller first, as in 3-8",
    "CR:3-8:cycles=0": "cycles must be 1 or more",
    "CR:3-8:cycles=two": "cycles must be an integer",
    "CR:3-8:8": "a setting is written key=value",
    "CR:3-8:rate=2": "no parameter 'rate'",
    "RR:3-8:constant=1.5": "leaves [0, 1]",
    "RR:3-8:constant=x": "constant must be a number",
    "CT:3-8:cycles=3": "'cosine-fall:3-8'",
    "RTV:3-8:cycles=1": "even number of cycles",
    "linear-fall:3-8:cycles=2": "no cycles to set",
    "static": "as in static:8",
    "static:0": "bits must be 1 or more",
    "static:0.5": "a mean width must be a number from 1 to 16, got 0.5",
    "static:2.00000001": "must lie between two integers, got 2.00000001: use static:2",
    "full:8": "nothing may follow full",
    "call:nobody": "unknown function 'nobody'",
    "join(full, full)": "a moment of training must be",
    "join(full, 0.5)": "one boundary between every two",
    "join(full, 0.6, full, 0.5, full)": "must be ascending",
    "join(full, 2.5, full)": "a fraction of training must be from 0.0 to 1.0, got 2.5",
    "delay(0.5)": "a moment and a schedule",
    "delay(1.0, static:8)": "leaves no steps for the schedule",
    "delay(-5, static:8)": "a step of training must be 0 or more, got -5",
    "delay(0.5, static:8": "unbalanced parentheses",
    "deficit(static:8)": "windows and a schedule",
    "deficit(3, static:8)": "written bits@start..stop",
    "deficit(3@0.5..0.5, full)": "is empty",
    "deficit(3@0.0..0.5, 4@0.4..0.6, full)": "0.0..0.5 and 0.4..0.6 overlap",
    "deficit(3@0.2..100, full)": "all steps or all fractions",
    "deficit(3@0.0..0.5, 3@100..200, full)": "all steps or all fractions",
    "deficit(0@0.0..0.5, full)": "bits must be 1 or more",
    # Beyond the limits.
    "RR:3-8:name=1": "profile rex has no parameter 'name'",
    "RR:3-8:constant=0.5:constant=0.5": "sets constant twice",
    "static:17": "bits must be from 1 to 16, got 17",
    f"static:{2**64 + 8}": "bits must be from 1 to 16, got 18446744073709551624",
    "static:" + "9" * 5000: "bits must be an integer, got '999",
    "CR:3-8:cycles=1000001": "cycles must be from 1 to 1000000, got 1000001",
    f"LR:3-8:cycles={2**63}": "cycles must be from 1 to 1000000",
    f"delay({MAX_STEPS + 1}, full)": "a step of training must be from 0 to 100000000",
    "static:\N{ARABIC-INDIC DIGIT THREE}": "bits must be an integer",
    "static:1_0": "bits must be an integer",
    "ER:3-8:rate=nan": "rate must be a number, got 'nan'",
    "ER:3-8:rate=1e999": "rate of profile exponential must be a finite number, got inf",
    "delay(nan, full)": "a moment of training must be",
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
    "a\nb": "unknown schedule 'a\\nb'",
}


@pytest.mark.parametrize("spec", MISUSE, ids=lambda spec: spec[:30])
def test_misuse_says_what_would_be_right_in_one_line(spec):
    with pytest.raises(ValueError, match=re.escape(MISUSE[spec])) as refused:
        bc.schedule(spec)
    message = str(refused.value)
    assert len(message) < 400
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bits": (3, 8.0)}, "q_max must be an integer"),
        ({"bits": (True, 8)}, "q_min must be an integer"),
        ({"bits": 8}, "a pair (q_min, q_max)"),
        ({"bits": (3, 8), "cycles": 2.5}, "cycles must be an integer"),
    ],
)
def test_misuse_of_arguments(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        bc.schedule("CR", **arguments)


def test_arguments_that_the_spec_has_no_use_for():
    for spec, arguments, what in (
        ("static:8", {"bits": (3, 8)}, "bits"),
        ("full", {"cycles": 4}, "cycles"),
        ("CR:3-6:cycles=8", {"bits": (4, 8)}, "bits"),
        ("CR:cycles=8", {"bits": (4, 8), "cycles": 4}, "cycles"),
        ("join(linear-rise, 0.5, static:8)", {"bits": (4, 8), "cycles": 4}, "cycles"),
    ):
        with pytest.raises(ValueError, match=f"^'{re.escape(spec)}' needs no {what}: drop the argument {what}$"):
            bc.schedule(spec, **arguments)
    for given in (bc.schedule("static:8"), dip):
        with pytest.raises(ValueError, match="needs no bits: drop the argument bits"):
            bc.schedule(given, bits=(3, 8))
    with pytest.raises(ValueError, match="a schedule must be a spec"):
        bc.schedule(8)


@pytest.mark.parametrize(
    ("spec", "step", "total", "message"),
    [
        ("static:8", -1, 10, "step must be 0 or more, got -1"),
        ("static:8", 0, 0, "total must be 1 or more"),
        ("static:8", 0.5, 10, "step must be an integer"),
        ("static:8", 0, 10.0, "total must be an integer"),
        ("deficit(3@0..1000, static:8)", 0, 100, "0..1000 is outside a run of 100 steps"),
        ("join(full, 200, static:8)", 0, 100, "is outside a run of 100 steps"),
        ("delay(100, CR:3-8)", 0, 100, "leaves no steps for the schedule in a run of 100 steps"),
    ],
)
def test_misuse_of_a_schedule(spec, step, total, message):
    with pytest.raises(ValueError, match=message):
        bc.schedule(spec)(step, total)


@pytest.mark.parametrize(("value", "message"), [(0, "1 or more, got 0"), (2000, "from 1 to 16, got 2000")])
def test_a_function_that_gives_no_width(value, message):
    with pytest.raises(ValueError, match=f"at step 0 of 5 must be {message}"):
        bc.schedule(lambda step, total: value, name=f"gives_{value}")(0, 5)
