"""Measure whether folding scales into grad_output costs quality: the same runs with and without it.

    python -m benchmarks.folding [--seeds 5] [--steps 0] [--schedule CR] [task ...]

Prints the test metric of each task with and without `Recipe(fold_scales=True)`, and the mean of the paired differences
with its 95 % interval. Both take every grid per row or per channel, so that there are scales to fold.
"""

import dataclasses
from statistics import fmean
from unittest import mock

import typer

from benchmarks.common import difference, markdown_table, trained_metric
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.tasks import task_named
from bitcycle.schedules import schedule as parse_schedule


def metric_with(run: RunConfig, fold: bool) -> float:
    kind = type(task_named(run.task))
    prepare = kind.prepare

    def prepare_with_recipe(self, run):
        training = prepare(self, run)
        training.recipe = dataclasses.replace(training.recipe, fold_scales=fold)
        return training

    with mock.patch.object(kind, "prepare", prepare_with_recipe):
        return trained_metric(run)


def main(
    tasks: list[str] = typer.Argument(["image", "language"]), seeds: int = 5, steps: int = 0, schedule: str = "CR"
) -> None:
    """Train tasks with and without folded scales."""
    rows = []
    for name in tasks:
        task = task_named(name)
        spec = str(parse_schedule(schedule, bits=task.bits, cycles=task.cycles))
        runs = [RunConfig(name, spec, steps or task.steps, seed=seed) for seed in range(seeds)]
        plain, folded = ({run.seed: metric_with(run, fold) for run in runs} for fold in (False, True))
        found = difference(folded, plain)
        means = [f"{fmean(values.values()):.4f}" for values in (plain, folded)]
        rows.append([f"{name} ({task.metric})", *means, f"{found.mean:+.4f} ({found.low:+.4f} to {found.high:+.4f})"])
    print(markdown_table(["task", "plain", "folded", "folded - plain"], rows))


if __name__ == "__main__":
    typer.run(main)
