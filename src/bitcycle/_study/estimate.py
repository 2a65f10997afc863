"""What a study would cost, before it runs: BitOps of every run, and the time from a few timed steps."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from bitcycle._cost import Cost, cost
from bitcycle.conversion.convert import quantize, set_bits
from bitcycle.experiments.data.splits import Split
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks import task_named

TIMED = 3  # steps, after one that warms up


@dataclass(frozen=True)
class Estimate:
    """Of one run."""

    run: RunConfig
    bitops: int
    seconds: float


@dataclass(frozen=True)
class _Measured:
    """What runs that differ by schedule and seed alone have in common."""

    step: Cost
    seconds_a_step: float
    seconds_an_evaluation: float
    evaluations: int


def estimate(runs: Iterable[RunConfig]) -> list[Estimate]:
    """Cost and time of each run; one model is built, and a few of its steps are run, for each kind of run."""
    measured: dict[RunConfig, _Measured] = {}
    found = []
    for run in runs:
        kind = replace(run, schedule="full", backward_bits="max", seed=0, learning_rate="")
        if kind not in measured:
            measured[kind] = _measure(kind)
        of = measured[kind]
        bitops = of.step.training(run.schedule, steps=run.steps, backward_bits=run.backward_bits)
        seconds = run.steps * of.seconds_a_step + of.evaluations * of.seconds_an_evaluation
        found.append(Estimate(run, int(bitops), seconds))
    return found


def _measure(run: RunConfig) -> _Measured:
    task = task_named(run.task)
    torch.manual_seed(0)
    training = task.prepare(run)
    quantize(training.model, training.recipe, policy=training.policy)
    training.model.train()
    counted = cost(training.model, training.example())
    set_bits(training.model, forward=8, backward=8)
    times = []
    for step in range(1 + TIMED):
        begun = time.perf_counter()
        training.optimizer.zero_grad()
        training.loss(step).backward()
        training.optimizer.step()
        times.append(time.perf_counter() - begun)
    training.model.eval()
    begun = time.perf_counter()
    training.evaluate(Split.VALIDATION)
    evaluation = time.perf_counter() - begun
    interval = training.evaluation_interval(task.evaluate_every, run.steps)
    return _Measured(counted, sorted(times[1:])[TIMED // 2], evaluation, run.steps // interval + 2)
