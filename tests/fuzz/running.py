"""The loop of the fuzzers."""

import random
import time
from dataclasses import dataclass

LONGEST = 2.0
"""Seconds of processor time that one input may take: far above what any takes, far below a minute."""


@dataclass
class Outcome:
    inputs: int
    valid: int
    slowest: float


def fuzz(draw, check, seed, number):
    """Check inputs; an input that breaks a law is named by the error. The inputs follow from the seed alone."""
    valid, slowest = 0, 0.0
    for index in range(number):
        drawn = draw(random.Random(f"{seed} {index}"))
        start = time.process_time()
        try:
            valid += check(drawn)
        except Exception as error:
            raise AssertionError(f"input {index} of seed {seed} breaks a law: {str(drawn)[:300]!r}") from error
        slowest = max(slowest, time.process_time() - start)
        assert slowest < LONGEST, f"input {index} of seed {seed} takes {slowest:.1f} s: {str(drawn)[:300]!r}"
    return Outcome(number, valid, slowest)
