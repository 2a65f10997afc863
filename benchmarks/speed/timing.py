"""Measuring times in turns, and the median and quartiles of what was measured."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

Call = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Spread:
    """The median of a sample with its lower and upper quartiles."""

    median: float
    lower: float
    upper: float

    @classmethod
    def of(cls, sample: Sequence[float]) -> Spread:
        """Return the spread of a sample.

        >>> Spread.of([1, 2, 3, 4, 5])
        Spread(median=3, lower=2.0, upper=4.0)
        >>> Spread.of([7])
        Spread(median=7, lower=7, upper=7)
        """
        if len(sample) == 1:
            return cls(sample[0], sample[0], sample[0])
        lower, _, upper = statistics.quantiles(sample, n=4, method="inclusive")
        return cls(statistics.median(sample), lower, upper)

    def times(self, factor: float) -> Spread:
        """Return the spread in another unit."""
        return Spread(factor * self.median, factor * self.lower, factor * self.upper)


def time_in_turns(
    calls: Mapping[Name, Call], rounds: int, warm_up: int = 2, repeats: int = 1
) -> dict[Name, list[float]]:
    """Return the seconds of each call in each round.

    A round runs every call once, in an order that changes from round to round, so that no call always follows the same
    one. Times of the same round can be compared although the speed of the machine changes.

    Args:
        calls: What to time, by name.
        rounds: Number of rounds that count.
        warm_up: Number of rounds before them.
        repeats: How often each call runs in its turn; its time is the mean. For calls that are too short for the clock.
    """
    order = list(calls)
    shuffle = random.Random(0).shuffle
    seconds: dict[Name, list[float]] = {name: [] for name in calls}
    for number in range(warm_up + rounds):
        shuffle(order)
        for name in order:
            call = calls[name]
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            taken = time.perf_counter() - start
            if number >= warm_up:
                seconds[name].append(taken / repeats)
    return seconds


def ratio(times: Sequence[float], base: Sequence[float]) -> Spread:
    """Return the spread of the ratios of times to base times of the same rounds.

    >>> ratio([2.0, 6.0, 4.0], [1.0, 2.0, 1.0])
    Spread(median=3.0, lower=2.5, upper=3.5)
    """
    return Spread.of([time / other for time, other in zip(times, base, strict=True)])


@contextmanager
def with_threads(number: int) -> Iterator[None]:
    """Compute with this number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
