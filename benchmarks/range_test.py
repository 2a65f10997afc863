"""Does the range test find the q_min that full trainings show?

    python benchmarks/range_test.py [--widths 1 2 3 4 8] [--seeds 1] [--workers 2] [task ...]

For each task: q_min by the range test (three seeds, a short training at each width), and by full trainings at each
static width. Of these the table gives the share of the highest width's gain that a width keeps, where the gain is the
test metric above that of the untrained model (of a perplexity, minus its logarithm). q_min of the full trainings is the
lowest width that keeps at least a half, as in the range test, and so do all wider ones.
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

from bitcycle.experiments.range_test import range_test_of_task
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks import TASKS, Task, task_named
from bitcycle.experiments.training import train
from bitcycle.kernels.noise import mix

SHARE = 0.5


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
    found = None
    for width in sorted(kept, reverse=True):
        if not kept[width] >= SHARE:
            break
        found = width
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=sorted(TASKS))
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 2, 3, 4, 8])
    parser.add_argument("--seeds", type=int, default=1, help="of the full trainings")
    parser.add_argument("--workers", type=int, default=2)
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
            begun = time.perf_counter()
            test = range_test_of_task(RunConfig(name, "full", task.steps), levels=widths)
            seconds = time.perf_counter() - begun
            floor = quality(task, untrained(runs[0]))
            gains = [quality(task, metric) - floor for metric in full_trainings]
            means = [statistics.mean(gains[i : i + options.seeds]) for i in range(0, len(gains), options.seeds)]
            kept = {width: mean / means[-1] for width, mean in zip(widths, means, strict=True)}
            shown = q_min_of(kept)
            agree = test.q_min is not None and shown is not None and abs(test.q_min - shown) <= 1
            cells = " | ".join(
                ", ".join(f"{max(0, share):.0%}" for share in shares)
                for shares in ([row.kept if row.kept == row.kept else 0 for row in test.evidence], kept.values())
            )
            print(
                f"| {name} | {test.iterations} | {seconds:.0f} | {cells} | {test.q_min} and {shown} "
                f"| {'yes' if agree else 'NO'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
