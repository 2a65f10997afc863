"""Short trainings, all from the same starting point: one for each level and seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bitcycle._range_test.snapshot import Snapshot
from bitcycle.arithmetic.site import KEY, Site
from bitcycle.conversion.sites import sites
from bitcycle.kernels.noise import mix
from bitcycle.schedules.base import Bits

Step = Callable[[Any], Any]
Curve = tuple[float, ...]


class Trials:
    """Runs a step over batches at some bits and seed, and puts everything back when it is left."""

    def __init__(self, model: nn.Module, step: Step, batches: Iterable[Any], most: int, also: list[Any]) -> None:
        if not isinstance(batches, Iterable):
            raise ValueError(f"batches are a DataLoader, a list or the like, not {type(batches).__name__}")
        self.step, self.batches, self.most = step, batches, most
        self.generators = list(_generators(batches))
        self.sites = list(sites(model).values())
        self.snapshot = Snapshot(model, [*also, *self.generators])

    def __enter__(self) -> Trials:
        if isinstance(self.batches, Iterator):  # it can be gone through once only, and every trial needs its batches
            self.batches = list(islice(self.batches, self.most))
        return self

    def __exit__(self, *error: object) -> None:
        self.snapshot.put_back()

    def run(
        self, level: Bits, backward_bits: Bits, seed: int, iterations: int, report: Callable[[], None] = lambda: None
    ) -> Curve:
        """What the step returned at each iteration; it ends early at a value that is not finite."""
        self.snapshot.put_back()
        self._begin(level, backward_bits, seed)
        values: list[float] = []
        with self.snapshot.no_other_optimizer():
            for batch in islice(self._order(seed), iterations):
                for site in self.sites:
                    site.begin_step(len(values))
                values.append(_number(self.step(batch)))
                _check_bits(self.sites, level)
                report()
                if not math.isfinite(values[-1]):
                    break
        return tuple(values)

    def _begin(self, level: Bits, backward_bits: Bits, seed: int) -> None:
        """Set the bits, and draw all random numbers, those of rounding included, from the seed."""
        number = mix(seed, 1) >> 1
        random.seed(number)
        np.random.seed(number % 2**32)  # noqa: NPY002 - what users' own code may draw from
        torch.manual_seed(number)
        for generator in self.generators:
            generator.manual_seed(number)
        for site in self.sites:
            site.set(forward=level, backward=backward_bits)
            site.control[KEY] = mix(site.key, seed) >> 1

    def _order(self, seed: int) -> Iterator[Any]:
        """The batches, over and over; what does not shuffle itself is shuffled."""
        while True:
            some = False
            for batch in self._shuffled(seed):
                some = True
                yield batch
            if not some:
                raise ValueError("there are no batches to train on: 'batches' is empty")

    def _shuffled(self, seed: int) -> Iterable[Any]:
        if isinstance(self.batches, (list, tuple)):
            return random.Random(seed).sample(self.batches, len(self.batches))
        return self.batches


def _number(value: Any) -> float:
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value.detach())
    if isinstance(value, (int, float, np.number)):
        return float(value)
    raise ValueError(f"step(batch) trains on a batch and returns its loss or metric as one number, not {value!r:.60}")


def _check_bits(every: list[Site], level: Bits) -> None:
    if any(site.forward_bits != level for site in every):
        raise ValueError("the step sets the bits itself, which the range test has to do: leave precision.step() out")


def _generators(batches: Any) -> Iterator[torch.Generator]:
    """Generators of a data loader's own, which going through it would move on."""
    found: list[torch.Generator] = []
    parts = [batches, getattr(batches, "sampler", None), getattr(batches, "batch_sampler", None)]
    for part in [*parts, getattr(parts[-1], "sampler", None)]:
        generator = getattr(part, "generator", None)
        if isinstance(generator, torch.Generator) and not any(generator is known for known in found):
            found.append(generator)
    return iter(found)
