"""The range test of one of the tasks, trained as ``bitcycle train`` trains it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bitcycle._range_test import RangeTestResult, range_test
from bitcycle.conversion.convert import quantize
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks import task_named
from bitcycle.experiments.training import update
from bitcycle.kernels.noise import mix


def range_test_of_task(run: RunConfig, longest: int = 480, **settings: Any) -> RangeTestResult:
    """Test the beginning of a run, whose schedule plays no part; settings are those of :func:`range_test`."""
    torch.manual_seed(mix(run.seed, 0) >> 1)
    training = task_named(run.task).prepare(run)
    quantize(training.model, training.recipe, policy=training.policy)

    def step(batch: tuple[int, int]) -> Tensor:
        iteration, place = batch
        training.model.train()
        loss = training.loss(place)
        update(training, loss, training.learning_rate(iteration, run.steps))
        return loss

    return range_test(
        training.model,
        step,
        _Places(run.steps),
        optimizer=training.optimizer,
        also=[training],
        longest=min(longest, run.steps),
        **settings,
    )


class _Places:
    """Iterations with consecutive places in the data, from a place that is drawn at random."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __iter__(self) -> Iterator[tuple[int, int]]:
        start = int(torch.randint(1_000_000, ()))
        return ((iteration, start + iteration) for iteration in range(self.steps))
