"""Check that the embedded tasks learn, and that precision matters in them.

    python benchmarks/embedded_tasks.py [--seeds 5] [--workers 2] [task ...]

Trains each task in full precision, at static q_max and at static q_min, over several seeds, on one thread per run.
Prints the mean and the standard error of the test metric, the difference between q_max and q_min in standard errors,
and the median seconds per run.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import RunResult, train
from bitcycle.lab.tasks import TASKS, task_named


def train_on_one_thread(run: RunConfig) -> RunResult:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    return train(run)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=sorted(TASKS), help="tasks to train; default: all")
    parser.add_argument("--seeds", type=int, default=5, help="number of random seeds; default: 5")
    parser.add_argument("--workers", type=int, default=2, help="number of worker processes; default: 2")
    options = parser.parse_args()
    print("| task | bits | metric | full precision | static q_max | static q_min | difference / error | seconds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for name in options.tasks:
            task = task_named(name)
            low, high = task.bits
            settings = ("full", f"static:{high}", f"static:{low}")
            backward = {"full": None}
            runs = [
                RunConfig(name, s, task.steps, seed, backward.get(s, high))
                for s in settings
                for seed in range(options.seeds)
            ]
            results = list(pool.map(train_on_one_thread, runs))
            groups = [results[i : i + options.seeds] for i in range(0, len(results), options.seeds)]
            means = [statistics.mean(r.test for r in group) for group in groups]
            errors = [statistics.stdev(r.test for r in group) / options.seeds**0.5 for group in groups]
            distance = abs(means[1] - means[2]) / (errors[1] ** 2 + errors[2] ** 2) ** 0.5
            cells = " | ".join(f"{mean:.4g} ± {error:.2g}" for mean, error in zip(means, errors, strict=True))
            seconds = statistics.median(r.seconds for r in results)
            print(f"| {name} | {low}-{high} | {task.metric} | {cells} | {distance:.1f} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
