"""The ten schedules against a plain re-computation of the paper's formulas, and against its table of savings."""

import math

import numpy as np
import pytest

import bitcycle as bc

GROWTH = {
    "C": lambda z: (1 - math.cos(math.pi * z)) / 2,
    "L": lambda z: z,
    "E": lambda z: 1 - math.exp(-4 * z),
    "R": lambda z: 1 - (1 - z) / (0.1 + 0.9 * (1 - z)),
}
NAMES = ["CR", "CT", "LR", "LT", "ER", "ETH", "ETV", "RR", "RTH", "RTV"]


def recomputed(name, low, high, cycles, total):
    """Step by step, in plain Python, from the formulas alone."""
    g = GROWTH[name[0]]
    bits = []
    for step in range(total):
        k = (step * cycles) // total
        z = ((step * cycles) % total) / total
        if name[1] == "R" or k % 2 == 1:
            f = g(z)
        elif name.endswith("V"):
            f = 1 - g(z)
        else:
            f = g(1 - z)
        bits.append(round(low + (high - low) * f))
    return bits


@pytest.mark.parametrize(
    ("name", "cycles"),
    [(name, cycles) for name in NAMES for cycles in (1, 2, 8, 32) if cycles > 1 or name[1] == "R"],
)
@pytest.mark.parametrize("bits", [(3, 8), (4, 6), (2, 16), (8, 8)])
def test_bit_for_bit(name, cycles, bits):
    s = bc.schedule(name, bits=bits, cycles=cycles)
    for total in (1, 2, 7, 1777):
        expected = recomputed(name, *bits, cycles, total)
        assert s.over(total).tolist() == expected
        assert [s(step, total) for step in range(0, total, 13)] == expected[::13]


TABLE = {  # mean bits 3-8, savings in % at 3-8, 3-6, 4-8, 5-8, 4-6, mean bits of the first tenth at 3-8, group
    "RR": (3.81, (60.1, 50.3, 49.9, 38.9, 35.6), 3.34, "large"),
    "RTH": (3.81, (60.1, 50.3, 49.9, 38.9, 35.6), 4.01, "large"),
    "LR": (5.50, (37.2, 30.4, 30.5, 23.4, 20.8), 5.00, "medium"),
    "LT": (5.50, (37.2, 30.4, 30.5, 23.4, 20.8), 6.00, "medium"),
    "CR": (5.50, (36.7, 30.0, 30.1, 23.1, 20.7), 4.87, "medium"),
    "CT": (5.50, (36.7, 30.0, 30.1, 23.1, 20.7), 6.13, "medium"),
    "ETV": (5.50, (36.5, 29.9, 30.0, 23.1, 20.6), 4.46, "medium"),
    "RTV": (5.50, (36.3, 29.8, 29.8, 23.0, 20.6), 7.66, "medium"),
    "ER": (6.83, (17.8, 13.7, 14.2, 10.5, 8.8), 6.54, "small"),
    "ETH": (6.83, (17.8, 13.7, 14.2, 10.5, 8.8), 7.40, "small"),
}
SPANS = [(3, 8), (3, 6), (4, 8), (5, 8), (4, 6)]


@pytest.mark.parametrize("name", NAMES)
def test_savings_of_the_paper(name):
    mean_bits, savings, early, group = TABLE[name]
    total = 64_000
    for bits, saving in zip(SPANS, savings, strict=True):
        s = bc.schedule(name, bits=bits, cycles=8)
        assert 100 * s.saving(total) == pytest.approx(saving, abs=0.1)
        assert s.group(total) == group
    s = bc.schedule(name, bits=(3, 8))
    assert s.mean_bits(total) == pytest.approx(mean_bits, abs=0.01)
    assert s.mean_bits(total, first=0.1) == pytest.approx(early, abs=0.01)


@pytest.mark.parametrize(("bits", "cycles", "saving"), [((3, 8), 8, 36.67), ((3, 8), 32, 36.67), ((3, 6), 32, 30.04)])
def test_savings_printed_for_cpt(bits, cycles, saving):
    assert 100 * bc.schedule("CR", bits=bits, cycles=cycles).saving(64_000) == pytest.approx(saving, abs=0.05)


def test_the_saving_is_the_formula():
    s = bc.schedule("CR", bits=(3, 8))
    q = s.over(1000)
    for given, g in ((4, 4), (8, 8), (16, 16), (None, 32)):
        expected = 1 - np.mean(q * q + 2 * q * g) / (64 + 16 * g)
        assert s.saving(1000, backward_bits=given) == pytest.approx(expected)


@pytest.mark.parametrize("spec", ["static:8", "full", "CR:8-8"])
def test_what_saves_nothing_has_no_group(spec):
    s = bc.schedule(spec)
    assert s.saving(100) == 0
    assert s.group(100) is None
