"""The precision range test: short trainings from the same starting point, one per level and seed."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from bitcycle._range_test.judging import Curve, LevelResult, LevelVerdict, judge
from bitcycle._range_test.result import RangeTestResult, conclude
from bitcycle.arithmetic.control import KEY
from bitcycle.arithmetic.site import Site
from bitcycle.conversion.convert import quantize, restore
from bitcycle.conversion.sites import conversions, sites
from bitcycle.conversion.snapshot import Snapshot
from bitcycle.grids import INTEGERS
from bitcycle.kernels.noise import mix
from bitcycle.schedules.base import Bits, validate_integer

MIN_ITERATIONS = 10
"""The fewest iterations in which there is a trend to test."""

Step = Callable[[Any], Any]
"""A training step: takes a batch and returns the loss or a metric."""

Report = Callable[[Bits, int, int], None]
"""A function that is called after each iteration with the bits, the iterations done and their total."""


def range_test(
    model: nn.Module,
    step: Step,
    batches: Iterable[Any],
    *,
    optimizer: Optimizer | None = None,
    also: Iterable[Any] = (),
    levels: Iterable[int] = range(2, 9),
    iterations: int = 60,
    longest: int = 480,
    seeds: int = 3,
    share: float = 0.5,
    higher_is_better: bool = False,
    backward_bits: int | str | None = "max",
    report: Report = lambda bits, done, total: None,
) -> RangeTestResult:
    """Find q_min: the lowest width such that training works at it and at every tested width above it.

    The test trains for ``iterations`` batches in full precision and at each level, for several seeds, always from the
    current state of the model. Each seed has its own order of batches, dropout and rounding noise, the same at every
    level. If full precision does not clearly learn, ``iterations`` is doubled, up to ``longest``. A level works if its
    loss falls significantly and it keeps at least ``share`` of full precision's progress; the formulas are in
    :mod:`bitcycle._range_test.judging`.

    Everything is restored exactly, even after an exception: parameters, buffers, gradients, training modes, bits,
    random states, the optimiser, and the objects in ``also``. A float model is converted by ``bc.quantize(model)``
    during the test; convert it yourself to use another recipe.

    Args:
        model: A float or converted model.
        step: One step of your training loop, ``step(batch)``, including backward pass and optimiser. It returns the
            loss, or a metric if ``higher_is_better``.
        batches: A data loader, a list, or another iterable. Each short run iterates over it from the start; lists and
            tuples are shuffled.
        optimizer: The optimiser that ``step`` uses.
        also: Further objects with a ``state_dict`` that ``step`` changes: optimisers, learning-rate schedulers.
        levels: The widths to test.
        iterations: Iterations of each short run, at least 10.
        longest: The maximum number of iterations after doubling.
        seeds: Number of runs at each level.
        share: The share of full precision's progress that a level must keep, above 0 and at most 1.
        higher_is_better: Whether ``step`` returns a metric that should rise.
        backward_bits: Bits of the gradients; ``"max"`` is the highest level, ``None`` is full precision.
        report: Called after each iteration as ``report(bits, done, total)``.

    Returns:
        The result, with ``q_min`` and the evidence at each level. It prints as a table.

    Raises:
        ValueError: If an argument is out of range, ``step`` returns no number or sets the bits itself, there are no
            batches, or ``step`` uses an optimiser that was not given.

    Example:
        >>> import torch
        >>> model, target = nn.Linear(8, 1), torch.linspace(-1, 1, 8)
        >>> optimizer = torch.optim.SGD(model.parameters(), 0.05)
        >>> def step(x):
        ...     loss = (model(x).squeeze(1) - x @ target).square().mean()
        ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
        ...     return loss
        >>> torch.manual_seed(0) and None
        >>> batches = [torch.randn(32, 8) for _ in range(20)]
        >>> range_test(model, step, batches, optimizer=optimizer, levels=(1, 2, 4, 8)).q_min
        2
    """
    grid = next((conversion.recipe.family for _, conversion in conversions(model)), INTEGERS)
    widths = sorted({validate_integer(level, "a level") for level in levels})
    if not widths:
        raise ValueError("levels must contain at least one width, as in range(2, 9)")
    for width in widths:
        grid.check_width(width, "a level")
    backward = widths[-1] if backward_bits == "max" else grid.check_width(backward_bits, "backward_bits")
    seeds, iterations = validate_integer(seeds, "seeds"), validate_integer(iterations, "iterations")
    if iterations < MIN_ITERATIONS:
        raise ValueError(f"iterations must be {MIN_ITERATIONS} or more to show a trend, got {iterations}")
    if not 0 < share <= 1:
        raise ValueError(f"share must be a fraction above 0 and at most 1, got {share!r}")
    others = [*([] if optimizer is None else [optimizer]), *also]
    done = 0

    def count(bits: Bits) -> None:
        nonlocal done
        done += 1
        report(bits, done, iterations * seeds * (len(widths) + 1))

    with ExitStack() as stack:
        if not any(True for _ in conversions(model)):
            quantize(model)
            stack.callback(restore, model)
        trials = Trials(model, step, batches, max(iterations, longest), others, count)
        stack.callback(trials.snapshot.restore)
        while True:
            curves = [trials.run(None, None, seed, iterations) for seed in range(seeds)]
            reference = judge(None, curves, None, share, higher_is_better)
            if reference.works or reference.verdict is LevelVerdict.DIVERGES or 2 * iterations > longest:
                break
            iterations, done = 2 * iterations, 0
        evidence: list[LevelResult] = []
        for width in widths if reference.works else ():
            curves = [trials.run(width, backward, seed, iterations) for seed in range(seeds)]
            evidence.append(judge(width, curves, reference, share, higher_is_better))
    return conclude(evidence, reference, iterations, share)


class Trials:
    """Trains at any bits and seed, from the state that everything has now."""

    def __init__(
        self,
        model: nn.Module,
        step: Step,
        batches: Iterable[Any],
        max_batches: int,
        also: list[Any],
        report: Callable[[Bits], None],
    ) -> None:
        if not isinstance(batches, Iterable):
            raise ValueError(f"batches must be a DataLoader, a list or another iterable, got {type(batches).__name__}")
        for module in model.modules():
            if any(is_lazy(parameter) for parameter in module.parameters(recurse=False)):
                raise ValueError(f"{type(module).__name__} has uninitialised parameters: run the model once first")
        self.model, self.step, self.report = model, step, report
        self.optimizers = [other for other in also if isinstance(other, Optimizer)]
        self.generators = _generators(batches)
        self.snapshot = Snapshot(model, [*also, *self.generators])
        # An iterator ends after one pass, and every trial needs its batches.
        self.batches = list(islice(batches, max_batches)) if isinstance(batches, Iterator) else batches

    def run(self, level: Bits, backward_bits: Bits, seed: int, iterations: int) -> Curve:
        """Train once and return the curve, which ends early at a value that is not finite."""
        self.snapshot.restore()
        controlled = self._begin(level, backward_bits, seed)
        values: list[float] = []
        with self._refuse_other_optimizers():
            for batch in islice(self._order(seed), iterations):
                for site in controlled:
                    site.begin_step(len(values))
                values.append(_number(self.step(batch)))
                if any((site.weight_bits, site.activation_bits) != (level, level) for site in controlled):
                    raise ValueError(
                        "step(batch) must not set the bits, which the range test sets: leave precision.step() out"
                    )
                self.report(level)
                if not math.isfinite(values[-1]):
                    break
        return tuple(values)

    def _begin(self, level: Bits, backward_bits: Bits, seed: int) -> list[Site]:
        """Set the bits, seed all random numbers, including those of stochastic rounding, and return the sites."""
        number = mix(seed, 1) >> 1
        random.seed(number)
        np.random.seed(number % 2**32)  # noqa: NPY002 - the user's code may draw from it
        torch.manual_seed(number)
        for generator in self.generators:
            generator.manual_seed(number)
        # Those that the first trials discovered, too. These are in full precision and draw no noise.
        controlled = list(sites(self.model).values())
        for site in controlled:
            site.set(forward=level, backward=backward_bits, strength=1.0)
            site.control[KEY] = mix(site.key, seed) >> 1
        return controlled

    def _refuse_other_optimizers(self) -> RemovableHandle:
        """Return a context in which a ValueError is raised before an optimiser steps here that is not restored."""
        thread = threading.get_ident()

        def refuse(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            if threading.get_ident() == thread and not any(optimizer is known for known in self.optimizers):
                raise ValueError(
                    f"step(batch) uses an optimiser ({type(optimizer).__name__}) that the range test cannot restore: "
                    "pass it as optimizer=..., or in also=[...]"
                )

        return register_optimizer_step_pre_hook(refuse)

    def _order(self, seed: int) -> Iterator[Any]:
        """Yield the batches again and again; lists and tuples are shuffled."""
        batches = self.batches
        if isinstance(batches, (list, tuple)):
            batches = random.Random(seed).sample(batches, len(batches))
        while True:
            empty = True
            for batch in batches:
                empty = False
                yield batch
            if empty:
                raise ValueError("batches must not be empty")


def _number(value: Any) -> float:
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value.detach())
    if isinstance(value, (int, float, np.number)):
        return float(value)
    raise ValueError(f"step(batch) must return the loss or a metric as one number, got {value!r:.60}")


def _generators(batches: Any) -> list[torch.Generator]:
    """Return the random generators of a data loader, whose state an iteration over it changes."""
    sampler = getattr(batches, "batch_sampler", None)
    parts = [batches, getattr(batches, "sampler", None), sampler, getattr(sampler, "sampler", None)]
    found = [getattr(part, "generator", None) for part in parts]
    return list({id(each): each for each in found if isinstance(each, torch.Generator)}.values())
