"""The loop of the fuzzers, and a short run of each. A long one is `make fuzz`."""

import random
import time

import pytest

import bitcycle as bc
from bitcycle.schedules import strength
from tests.fuzz.plans import check_plan, draw_plan, read_text
from tests.fuzz.specs import (
    check_control,
    check_message,
    check_spec,
    check_strength,
    draw_control,
    draw_spec,
    draw_strength,
    solved,
)

LONGEST = 2.0
"""Seconds of processor time that one input may take: far above what any takes, far below a minute."""

FUZZERS = {
    "specs": (draw_spec, lambda drawn: bc.schedule(*drawn), check_spec),
    "strengths": (draw_strength, strength, check_strength),
    "controls": (draw_control, solved, check_control),
    "plans": (draw_plan, read_text, check_plan),
}
"""How to draw an input, how to read it, and how to check what a valid one gives."""


def fuzz(name, seed, number):
    """Return how many inputs are valid, and the time of the slowest. An input that breaks a law is named by the error.

    The inputs follow from the seed alone.
    """
    draw, read, check = FUZZERS[name]
    valid, slowest = 0, 0.0
    for index in range(number):
        drawn = draw(random.Random(f"{seed} {index}"))
        start = time.process_time()
        try:
            try:
                found = read(drawn)
            except ValueError as error:
                check_message(error)
            else:
                check(found)
                valid += 1
        except Exception as error:
            raise AssertionError(f"input {index} of seed {seed} breaks a law: {str(drawn)[:300]!r}") from error
        slowest = max(slowest, time.process_time() - start)
        assert slowest < LONGEST, f"input {index} of seed {seed} takes {slowest:.1f} s: {str(drawn)[:300]!r}"
    return valid, slowest


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), list(zip(FUZZERS, (10_000, 2000, 300, 500), strict=True)))
def test_a_short_run(name, number):
    valid, _ = fuzz(name, seed=1, number=number)
    assert valid > number / 3
