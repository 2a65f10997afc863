"""Short trainings from the same starting point, one per level and seed."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from bitcycle.arithmetic.control import KEY
from bitcycle.arithmetic.site import Site
from bitcycle.conversion.sites import sites
from bitcycle.conversion.snapshot import Snapshot
from bitcycle.kernels.noise import mix
from bitcycle.schedules.base import Bits

Step = Callable[[Any], Any]
"""A training step: takes a batch and returns the loss or a metric."""

Curve = tuple[float, ...]
"""What the step returned at each iteration."""


class Trials:
    """Context manager that trains at any bits and seed, and restores everything at its end."""

    def __init__(self, model: nn.Module, step: Step, batches: Iterable[Any], max_batches: int, also: list[Any]) -> None:
        if not isinstance(batches, Iterable):
            raise ValueError(f"batches must be a DataLoader, a list or another iterable, got {type(batches).__name__}")
        self.model, self.step, self.batches, self.max_batches = model, step, batches, max_batches
        self.generators = list(_generators(batches))
        self.sites: list[Site] = []
        for module in model.modules():
            if any(is_lazy(parameter) for parameter in module.parameters(recurse=False)):
                raise ValueError(f"{type(module).__name__} has uninitialised parameters: run the model once first")
        self.optimizers = [other for other in also if isinstance(other, Optimizer)]
        self.snapshot = Snapshot(model, [*also, *self.generators])

    def __enter__(self) -> Trials:
        if isinstance(self.batches, Iterator):  # an iterator ends after one pass, and every trial needs its batches
            self.batches = list(islice(self.batches, self.max_batches))
        return self

    def __exit__(self, *error: object) -> None:
        self.snapshot.restore()

    def run(
        self, level: Bits, backward_bits: Bits, seed: int, iterations: int, report: Callable[[], None] = lambda: None
    ) -> Curve:
        """Train once and return the curve, which ends early at a value that is not finite."""
        self.snapshot.restore()
        self._begin(level, backward_bits, seed)
        values: list[float] = []
        with self._refuse_other_optimizers():
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
        """Set the bits, and seed all random numbers, including those of stochastic rounding."""
        number = mix(seed, 1) >> 1
        random.seed(number)
        np.random.seed(number % 2**32)  # noqa: NPY002 - the user's code may draw from it
        torch.manual_seed(number)
        for generator in self.generators:
            generator.manual_seed(number)
        # Those that the first trials discovered, too. These are in full precision and draw no noise.
        self.sites = list(sites(self.model).values())
        for site in self.sites:
            site.set(forward=level, backward=backward_bits, strength=1.0)
            site.control[KEY] = mix(site.key, seed) >> 1

    @contextmanager
    def _refuse_other_optimizers(self) -> Iterator[None]:
        """Raise a ValueError before an optimiser steps in this thread that is not restored."""
        thread = threading.get_ident()

        def refuse(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            if threading.get_ident() == thread and not any(optimizer is known for known in self.optimizers):
                raise ValueError(
                    f"step(batch) uses an optimiser ({type(optimizer).__name__}) that the range test cannot restore: "
                    "pass it as optimizer=..., or in also=[...]"
                )

        handle = register_optimizer_step_pre_hook(refuse)
        try:
            yield
        finally:
            handle.remove()

    def _order(self, seed: int) -> Iterator[Any]:
        """Yield the batches again and again; lists and tuples are shuffled."""
        while True:
            empty = True
            for batch in self._shuffled(seed):
                empty = False
                yield batch
            if empty:
                raise ValueError("batches must not be empty")

    def _shuffled(self, seed: int) -> Iterable[Any]:
        if isinstance(self.batches, (list, tuple)):
            return random.Random(seed).sample(self.batches, len(self.batches))
        return self.batches


def _number(value: Any) -> float:
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value.detach())
    if isinstance(value, (int, float, np.number)):
        return float(value)
    raise ValueError(f"step(batch) must return the loss or a metric as one number, got {value!r:.60}")


def _check_bits(sites: list[Site], level: Bits) -> None:
    if any((site.weight_bits, site.activation_bits) != (level, level) for site in sites):
        raise ValueError("step(batch) must not set the bits, which the range test sets: leave precision.step() out")


def _generators(batches: Any) -> Iterator[torch.Generator]:
    """Yield the random generators of a data loader, whose state an iteration over it changes."""
    generators: list[torch.Generator] = []
    parts = [batches, getattr(batches, "sampler", None), getattr(batches, "batch_sampler", None)]
    for part in [*parts, getattr(parts[-1], "sampler", None)]:
        generator = getattr(part, "generator", None)
        if isinstance(generator, torch.Generator) and not any(generator is known for known in generators):
            generators.append(generator)
    return iter(generators)
