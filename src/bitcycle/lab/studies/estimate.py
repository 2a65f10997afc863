"""Estimate what a study costs before it runs: BitOps of each run, and its time from a few timed steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bitcycle._cost import Cost, cost
from bitcycle.conversion.convert import set_bits
from bitcycle.lab.data.splits import Split
from bitcycle.lab.runs.run_config import ComparisonGroup, Condition, RunConfig
from bitcycle.lab.runs.training import prepare
from bitcycle.lab.tasks import Training, task_of
from bitcycle.schedules import Bits, Schedule
from bitcycle.schedules.operands import OperandSchedules

TIMED = 3  # steps that are timed, after one for warming up


@dataclass(frozen=True)
class RunEstimate:
    """The expected cost and time of one run."""

    run: RunConfig
    bitops: int
    seconds: float


def estimate(runs: Iterable[RunConfig]) -> list[RunEstimate]:
    """Return the cost and time of each run, from a few steps of one model for each comparison group."""
    wanted = list(runs)
    measured: dict[ComparisonGroup, tuple[Cost, float]] = {}
    bitops: dict[Condition, int] = {}  # seeds cost the same
    for run in wanted:
        if run.group not in measured:
            measured[run.group] = _measure(run)
        if run.condition not in bitops:
            step, _ = measured[run.group]
            overrides = run.condition.overrides
            bitops[run.condition] = int(step.training(run.schedule, run.steps, run.backward_bits, **overrides))
    return [RunEstimate(run, bitops[run.condition], measured[run.group][1]) for run in wanted]


def training_cost(run: RunConfig) -> Callable[[Schedule, Bits | str], float]:
    """Return the cost of a training like this run, as a function of its schedule and the bits of its gradients.

    Separate schedules of weights, activations and strength are those of the run.
    """
    training, step_cost = _prepared(run)
    sizes = [training.step_size(step) for step in range(run.steps)]

    def cost_of(schedule: Schedule, backward_bits: Bits | str) -> float:
        if all(size == 1 for size in sizes):
            return step_cost.training(schedule, run.steps, backward_bits, **run.condition.overrides)
        operands = OperandSchedules.of(schedule, backward_bits, **run.condition.overrides)
        widths = [operands.at(step, run.steps).counted() for step in range(run.steps)]
        of_step = {(w, a, g): step_cost.bitops(weights=w, activations=a, backward=g) for w, a, g in set(widths)}
        return sum(size * of_step[each] for size, each in zip(sizes, widths, strict=True))

    return cost_of


def _prepared(run: RunConfig) -> tuple[Training, Cost]:
    training = prepare(run, grid="integer")  # every grid costs the same
    training.model.train()
    return training, cost(training.model, training.example())


def _measure(run: RunConfig) -> tuple[Cost, float]:
    """Return the cost of a step, and the seconds of the run."""
    task = task_of(run)
    training, counted = _prepared(run)
    set_bits(training.model, forward=8, backward=8)
    times = []
    for step in range(1 + TIMED):
        start = time.perf_counter()
        training.optimizer.zero_grad()
        training.loss(step).backward()
        training.optimizer.step()
        times.append(time.perf_counter() - start)
    training.model.eval()
    start = time.perf_counter()
    training.evaluate(Split.VALIDATION)
    evaluation = time.perf_counter() - start
    interval = training.evaluation_interval(task.evaluate_every, run.steps)
    return counted, run.steps * sorted(times[1:])[TIMED // 2] + (run.steps // interval + 2) * evaluation
