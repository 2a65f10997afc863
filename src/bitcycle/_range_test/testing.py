"""The precision range test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.optim import Optimizer

from bitcycle._range_test.judging import Reference, judge, judge_reference
from bitcycle._range_test.result import RangeTest, conclude
from bitcycle._range_test.trials import Curve, Step, Trials
from bitcycle.conversion.convert import quantize, restore
from bitcycle.conversion.sites import conversions
from bitcycle.kernels.rounding import check_width
from bitcycle.schedules.base import Bits, positive

FEWEST = 10
"""Iterations, below which there is no trend to test."""

Report = Callable[[Bits, int, int], None]
"""Called after each iteration with the bits, the iterations done and their total."""


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
) -> RangeTest:
    """Find q_min: the lowest width at which training works, at it and at every tested width above.

    ``step(batch)`` is one step of your training, backward pass and optimiser included, and returns the loss or, with
    ``higher_is_better``, a metric. It runs for ``iterations`` batches in full precision and at each of the ``levels``,
    for each of several ``seeds``, always from where the model is now. A seed has its own order of batches, dropout and
    rounding noise, the same at every level. If full precision does not clearly learn, ``iterations`` are doubled up to
    ``longest``. A level works if its loss falls significantly, and it keeps at least a ``share`` of full precision's
    progress: :mod:`bitcycle._range_test.judging` has the formulas.

    Everything is put back exactly as it was, whatever happens: parameters, buffers, gradients, modes, bits, random
    states, the ``optimizer``, and what is in ``also`` (further optimisers, learning-rate schedulers, anything with a
    ``state_dict``). A float model is converted for the time of the test by ``bc.quantize(model)``; convert it yourself
    for another recipe. ``batches`` are gone through anew for each training; lists are shuffled. ``backward_bits`` is
    the highest level unless given.

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
    widths = _checked_levels(levels)
    backward = widths[-1] if backward_bits == "max" else check_width(backward_bits, "backward_bits")
    seeds, iterations = positive(seeds, "the number of seeds"), positive(iterations, "the number of iterations")
    if iterations < FEWEST:
        raise ValueError(f"{iterations} iterations are too few to see a trend: take {FEWEST} or more")
    if not 0 < share <= 1:
        raise ValueError(f"share is a part of full precision's progress above 0 and up to 1, not {share!r}")
    others = [*([] if optimizer is None else [optimizer]), *also]
    with _converted(model), Trials(model, step, batches, max(iterations, longest), others) as trials:
        runner = _Runner(trials, seeds, len(widths) + 1, backward, report)
        reference = runner.reference(iterations, longest, higher_is_better)
        evidence = []
        if reference.learns:
            evidence = [judge(q, runner.curves(q), reference, share, higher_is_better) for q in widths]
    return conclude(evidence, reference, runner.iterations, share)


class _Runner:
    """Runs the trials of a level, and reports how far it is."""

    def __init__(self, trials: Trials, seeds: int, settings: int, backward_bits: Bits, report: Report) -> None:
        self.trials, self.seeds, self.settings = trials, seeds, settings
        self.backward_bits, self.report = backward_bits, report
        self.iterations = self.done = 0

    def reference(self, iterations: int, longest: int, higher_is_better: bool) -> Reference:
        """Full precision, over as many iterations as it takes to see it learn."""
        while True:
            self.iterations, self.done = iterations, 0
            reference = judge_reference(self.curves(None), higher_is_better)
            if reference.learns or reference.evidence.diverged or 2 * iterations > longest:
                return reference
            iterations *= 2

    def curves(self, bits: Bits) -> list[Curve]:
        backward = None if bits is None else self.backward_bits
        return [
            self.trials.run(bits, backward, seed, self.iterations, lambda: self._report(bits))
            for seed in range(self.seeds)
        ]

    def _report(self, bits: Bits) -> None:
        self.done += 1
        self.report(bits, self.done, self.iterations * self.seeds * self.settings)


def _checked_levels(levels: Iterable[int]) -> list[int]:
    widths = sorted({positive(level, "a level") for level in levels})
    if not widths:
        raise ValueError("there are no levels to test: give widths such as range(2, 9)")
    for width in widths:
        check_width(width, "a level")
    return widths


@contextmanager
def _converted(model: nn.Module) -> Iterator[None]:
    """A float model is converted for the time being."""
    if any(True for _ in conversions(model)):
        yield
        return
    quantize(model)
    try:
        yield
    finally:
        restore(model)
