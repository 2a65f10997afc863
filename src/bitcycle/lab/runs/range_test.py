"""The precision range test of a task, trained in the same way as ``bitcycle train`` trains it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bitcycle._range_test import RangeTestResult, range_test
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import prepare, update


def range_test_of_task(run: RunConfig, longest: int = 480, **settings: Any) -> RangeTestResult:
    """Run the range test on the first steps of a run.

    Args:
        run: The run; its schedule is ignored.
        longest: The largest number of steps of a trial; never more than the run has.
        **settings: Further arguments of :func:`bitcycle.range_test`.

    Returns:
        The result of :func:`bitcycle.range_test`.
    """
    training = prepare(run)

    def step(batch: tuple[int, int]) -> Tensor:
        iteration, data_step = batch
        training.model.train()
        loss = training.loss(data_step)
        update(training, loss, training.learning_rate(iteration, run.steps))
        return loss

    return range_test(
        training.model,
        step,
        _RandomStart(run.steps),
        optimizer=training.optimizer,
        also=[training],
        longest=min(longest, run.steps),
        **settings,
    )


class _RandomStart:
    """Pairs of (iteration, step whose batch is used): consecutive batches from a random start."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __iter__(self) -> Iterator[tuple[int, int]]:
        start = int(torch.randint(1_000_000, ()))
        return ((iteration, start + iteration) for iteration in range(self.steps))
