"""Measure whether folding scales into grad_output costs quality: the same runs with and without it.

    python benchmarks/folding.py [--tasks image language] [--seeds 5] [--steps 0] [--schedule CR]

Prints the test metric of each task with and without `Recipe(fold_scales=True)`, and the mean of the paired differences
with its 95 % interval. Both take every grid per row or per channel, so that there are scales to fold.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
from unittest import mock

from scipy import stats

from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import task_named
from bitcycle.schedules import schedule


def test_metric(run: RunConfig, fold: bool) -> float:
    task = task_named(run.task)
    prepare = type(task).prepare

    def prepare_with_recipe(self, run):
        training = prepare(self, run)
        training.recipe = dataclasses.replace(training.recipe, fold_scales=fold)
        return training

    with mock.patch.object(type(task), "prepare", prepare_with_recipe):
        return train(run)[0].test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=["image", "language"], help="default: image language")
    parser.add_argument("--seeds", type=int, default=5, help="default: 5")
    parser.add_argument("--steps", type=int, default=0, help="default: those of the task")
    parser.add_argument("--schedule", default="CR", help="default: CR")
    arguments = parser.parse_args()
    print(f"{'task':10}  {'metric':10}  {'plain':>8}  {'folded':>8}  folded - plain, 95 % interval")
    for name in arguments.tasks:
        task = task_named(name)
        spec = str(schedule(arguments.schedule, bits=task.bits, cycles=task.cycles))
        runs = [RunConfig(name, spec, arguments.steps or task.steps, seed=seed) for seed in range(arguments.seeds)]
        plain, folded = ([test_metric(run, fold) for run in runs] for fold in (False, True))
        differences = [b - a for a, b in zip(plain, folded, strict=True)]
        mean, error = statistics.mean(differences), statistics.stdev(differences) / math.sqrt(len(runs))
        reach = error * stats.t.ppf(0.975, len(runs) - 1)
        print(
            f"{name:10}  {task.metric:10}  {statistics.mean(plain):8.4f}  {statistics.mean(folded):8.4f}  "
            f"{mean:+.4f} ({mean - reach:+.4f} to {mean + reach:+.4f})"
        )


if __name__ == "__main__":
    main()
