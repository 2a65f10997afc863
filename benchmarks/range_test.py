"""Compare the q_min of the range test with the q_min of full trainings.

    python -m benchmarks.range_test [--seeds 1] [--workers 2] [task ...]

For each task, the range test runs three seeds of a short training at 1, 2, 3, 4 and 8 bits, and a full training runs at
each static width. The gain of a full training is its test metric minus that of the untrained model (of a perplexity,
the negative logarithm). The table shows the share of the highest width's gain that each width keeps. The q_min of the
full trainings is the lowest width that keeps at least a half, as in the range test, if all higher widths do too.
"""

import math
import time
from collections.abc import Sequence
from itertools import takewhile
from statistics import fmean

import torch
import typer

from benchmarks.common import markdown_table, run_in_processes
from bitcycle.kernels.noise import mix
from bitcycle.lab.runs.range_test import range_test_of_task
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import TASKS, task_named

WIDTHS = (1, 2, 3, 4, 8)
SHARE = 0.5  # the default of the range test


def untrained(run: RunConfig) -> float:
    torch.manual_seed(mix(run.seed, 0) >> 1)
    training = task_named(run.task).prepare(run)
    training.model.eval()
    return training.evaluate("test")


def trained(run: RunConfig) -> float:
    return train(run)[0].test


def percentages(shares: Sequence[float]) -> str:
    return ", ".join(f"{max(0, 0 if math.isnan(share) else share):.0%}" for share in shares)


def row(name: str, seeds: int, workers: int) -> list[str]:
    task = task_named(name)
    start = time.perf_counter()
    test = range_test_of_task(RunConfig(name, "full", task.steps), levels=list(WIDTHS))
    seconds = time.perf_counter() - start
    runs = [
        RunConfig(name, f"static:{width}", task.steps, seed, WIDTHS[-1]) for width in WIDTHS for seed in range(seeds)
    ]
    metrics = [untrained(runs[0]), *run_in_processes(trained, runs, workers)]
    floor, *qualities = (metric if task.higher_is_better else -math.log(metric) for metric in metrics)
    gains = [fmean(qualities[i : i + seeds]) - floor for i in range(0, len(qualities), seeds)]
    kept = [gain / gains[-1] for gain in gains]
    working = list(takewhile(lambda pair: pair[1] >= SHARE, zip(reversed(WIDTHS), reversed(kept), strict=True)))
    q_min = working[-1][0] if working else None
    agree = test.q_min is not None and q_min is not None and abs(test.q_min - q_min) <= 1
    shares = [percentages([level.kept for level in test.evidence]), percentages(kept)]
    found = [f"{test.q_min}, {q_min}", "yes" if agree else "NO"]
    return [name, str(test.iterations), f"{seconds:.0f}", *shares, *found]


def main(tasks: list[str] = typer.Argument(sorted(TASKS)), seeds: int = 1, workers: int = 2) -> None:
    """Compare the q_min of the range test with the q_min of full trainings."""
    torch.set_num_threads(1)
    heads = ["task", "iterations", "seconds", "range test keeps", "full training keeps", "q_min: test, training"]
    print(markdown_table([*heads, "agree"], [row(name, seeds, workers) for name in tasks]))


if __name__ == "__main__":
    typer.run(main)
