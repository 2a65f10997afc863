"""Compare the q_min of the range test with the q_min of full trainings.

    python benchmarks/range_test.py [--widths 1 2 3 4 8] [--seeds 1] [--workers 2] [task ...]

For each task, the range test runs three seeds of a short training at each width, and a full training runs at each
static width. The gain of a full training is its test metric minus that of the untrained model (of a perplexity, the
negative logarithm). The table shows the share of the highest width's gain that each width keeps. The q_min of the full
trainings is the lowest width that keeps at least a half, as in the range test, if all higher widths do too.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

from bitcycle.kernels.noise import mix
from bitcycle.lab.runs.range_test import range_test_of_task
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import TASKS, Task, task_named

SHARE = 0.5  # the default of the range test


def quality(task: Task, metric: float) -> float:
    return metric if task.higher_is_better else -math.log(metric)


def untrained(run: RunConfig) -> float:
    torch.manual_seed(mix(run.seed, 0) >> 1)
    training = task_named(run.task).prepare(run)
    training.model.eval()
    return training.evaluate("test")


def trained(run: RunConfig) -> float:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    return train(run)[0].test


def q_min_of(kept: dict[int, float]) -> int | None:
    q_min = None
    for width in sorted(kept, reverse=True):
        if not kept[width] >= SHARE:  # NaN fails too
            break
        q_min = width
    return q_min


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=sorted(TASKS), help="tasks to test; default: all")
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 2, 3, 4, 8], help="default: 1 2 3 4 8")
    parser.add_argument("--seeds", type=int, default=1, help="random seeds of the full trainings; default: 1")
    parser.add_argument("--workers", type=int, default=2, help="number of worker processes; default: 2")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    widths = sorted(options.widths)
    print(f"shares at {widths} bits\n")
    print(
        "| task | iterations | seconds | range test keeps | full training keeps | q_min, test and trainings | agree |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for name in options.tasks:
            task = task_named(name)
            runs = [
                RunConfig(name, f"static:{width}", task.steps, seed, widths[-1])
                for width in widths
                for seed in range(options.seeds)
            ]
            full_trainings = pool.map(trained, runs)
            start = time.perf_counter()
            test = range_test_of_task(RunConfig(name, "full", task.steps), levels=widths)
            seconds = time.perf_counter() - start
            floor = quality(task, untrained(runs[0]))
            gains = [quality(task, metric) - floor for metric in full_trainings]
            means = [statistics.mean(gains[i : i + options.seeds]) for i in range(0, len(gains), options.seeds)]
            kept = {width: mean / means[-1] for width, mean in zip(widths, means, strict=True)}
            q_min = q_min_of(kept)
            agree = test.q_min is not None and q_min is not None and abs(test.q_min - q_min) <= 1
            cells = " | ".join(
                ", ".join(f"{max(0, share):.0%}" for share in shares)
                for shares in ([0 if math.isnan(level.kept) else level.kept for level in test.evidence], kept.values())
            )
            print(
                f"| {name} | {test.iterations} | {seconds:.0f} | {cells} | {test.q_min} and {q_min} "
                f"| {'yes' if agree else 'NO'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
