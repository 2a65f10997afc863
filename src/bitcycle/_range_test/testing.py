"""The precision range test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.optim import Optimizer

from bitcycle._range_test.judging import LevelResult, LevelVerdict, judge, judge_reference
from bitcycle._range_test.result import RangeTestResult, conclude
from bitcycle._range_test.trials import Curve, Step, Trials
from bitcycle.conversion.convert import quantize, restore
from bitcycle.conversion.sites import conversions
from bitcycle.grids import INTEGERS, GridFamily
from bitcycle.schedules.base import Bits, validate_positive

MIN_ITERATIONS = 10
"""The fewest iterations in which there is a trend to test."""

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
    grid = _grid(model)
    widths = _validate_levels(levels, grid)
    backward = widths[-1] if backward_bits == "max" else grid.check_width(backward_bits, "backward_bits")
    seeds, iterations = validate_positive(seeds, "seeds"), validate_positive(iterations, "iterations")
    if iterations < MIN_ITERATIONS:
        raise ValueError(f"iterations must be {MIN_ITERATIONS} or more to show a trend, got {iterations}")
    if not 0 < share <= 1:
        raise ValueError(f"share must be a fraction above 0 and at most 1, got {share!r}")
    others = [*([] if optimizer is None else [optimizer]), *also]
    with _converted(model), Trials(model, step, batches, max(iterations, longest), others) as trials:
        runner = _Runner(trials, seeds, len(widths) + 1, backward, report)
        reference = runner.reference(iterations, longest, higher_is_better)
        evidence: list[LevelResult] = []
        if reference.works:
            evidence = [judge(q, runner.curves(q), reference, share, higher_is_better) for q in widths]
    return conclude(evidence, reference, runner.iterations, share)


class _Runner:
    """Runs the trials of each level and reports the progress."""

    def __init__(self, trials: Trials, seeds: int, settings: int, backward_bits: Bits, report: Report) -> None:
        self.trials, self.seeds, self.settings = trials, seeds, settings
        self.backward_bits, self.report = backward_bits, report
        self.iterations = self.done = 0

    def reference(self, iterations: int, longest: int, higher_is_better: bool) -> LevelResult:
        """Return the result of full precision, with as many iterations as it needs to learn clearly."""
        while True:
            self.iterations, self.done = iterations, 0
            reference = judge_reference(self.curves(None), higher_is_better)
            if reference.works or reference.verdict is LevelVerdict.DIVERGES or 2 * iterations > longest:
                return reference
            iterations *= 2

    def curves(self, bits: Bits) -> list[Curve]:
        """Return the curve of each seed at a level."""
        backward = None if bits is None else self.backward_bits
        return [
            self.trials.run(bits, backward, seed, self.iterations, lambda: self._report(bits))
            for seed in range(self.seeds)
        ]

    def _report(self, bits: Bits) -> None:
        self.done += 1
        self.report(bits, self.done, self.iterations * self.seeds * self.settings)


def _grid(model: nn.Module) -> GridFamily:
    """Return the grid of a converted model, or the default one that a float model gets."""
    return next((conversion.recipe.family for _, conversion in conversions(model)), INTEGERS)


def _validate_levels(levels: Iterable[int], grid: GridFamily) -> list[int]:
    widths = sorted({validate_positive(level, "a level") for level in levels})
    if not widths:
        raise ValueError("levels must contain at least one width, as in range(2, 9)")
    for width in widths:
        grid.check_width(width, "a level")
    return widths


@contextmanager
def _converted(model: nn.Module) -> Iterator[None]:
    """Convert a float model temporarily."""
    if any(True for _ in conversions(model)):
        yield
        return
    quantize(model)
    try:
        yield
    finally:
        restore(model)
