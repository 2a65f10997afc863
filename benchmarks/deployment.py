"""Does training on a precision schedule help a model that is deployed at few bits?

    python benchmarks/deployment.py [--seeds 5] [--workers 1] [--out out/deployment.jsonl] [task ...]

Trains each embedded task in full precision, at static q_max, at static 4 bits and on two schedules, over several seeds,
on one thread per run, and evaluates every trained model on the test set in full precision and at 8, 6, 4, 3 and 2 bits.
Each run is one line of the output file; the same command continues where it stopped. Prints one table per task: the
mean over seeds, and the paired difference from static q_max with its 95 % confidence interval (Student's t).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from scipy import stats

from bitcycle.lab.runs.deployment import metric_at, prepare_trained
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import task_named
from bitcycle.schedules.spec import complete

TASKS = ("image", "graph", "language", "entailment")
STATIC = "static q_max"
WIDTHS = ("full", "8", "6", "4", "3", "2")


def settings(name: str) -> dict[str, str]:
    """Return the schedules of a task, by the name of their row."""
    task = task_named(name)
    cyclic = {kind: str(complete(kind, task.bits, task.cycles)) for kind in ("CR", "RTH")}
    return {"full precision": "full", STATIC: f"static:{task.bits[1]}", "static 4": "static:4", **cyclic}


def deploy(name: str, setting: str, seed: int, pause: str | None) -> dict[str, Any]:
    while pause and Path(pause).exists():
        time.sleep(5)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    task = task_named(name)
    # Gradients at q_max in all settings, as in a study, so that static 4 differs from static q_max in its width alone.
    backward = None if setting == "full precision" else task.bits[1]
    run = RunConfig(name, settings(name)[setting], task.steps, seed, backward)
    _, model = train(run)
    return {"task": name, "setting": setting, "seed": seed, **metric_at(prepare_trained(run, model.state_dict()))}


def difference(values: list[float], others: list[float]) -> str:
    paired = [a - b for a, b in zip(values, others, strict=True)]
    mean, n = statistics.mean(paired), len(paired)
    half = stats.t.ppf(0.975, n - 1) * statistics.stdev(paired) / n**0.5 if n > 1 else float("nan")
    return f"{mean:+.4g} ± {half:.2g}"


def print_table(name: str, rows: list[dict[str, Any]]) -> None:
    task = task_named(name)
    print(f"\n{name}, {task.metric}, {len({row['seed'] for row in rows})} seeds\n")
    print("| trained | " + " | ".join(f"{w} bits" if w != "full" else w for w in WIDTHS) + " |")
    print("|---" * (len(WIDTHS) + 1) + "|")
    by_seed = {(row["setting"], row["seed"]): row for row in rows}
    for setting in settings(name):
        seeds = [seed for (other, seed) in by_seed if other == setting and (STATIC, seed) in by_seed]
        cells = []
        for width in WIDTHS:
            own = [by_seed[setting, seed][width] for seed in seeds]
            cell = f"{statistics.mean(own):.4g}" if own else ""
            if own and setting != STATIC:
                cell += f" ({difference(own, [by_seed[STATIC, seed][width] for seed in seeds])})"
            cells.append(cell)
        print(f"| {setting} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=TASKS, help=f"tasks to train; default: {' '.join(TASKS)}")
    parser.add_argument("--seeds", type=int, default=5, help="number of random seeds; default: 5")
    parser.add_argument("--workers", type=int, default=1, help="number of worker processes; default: 1")
    parser.add_argument("--out", type=Path, default=Path("out/deployment.jsonl"), help="file with one line per run")
    parser.add_argument("--pause", help="start no run while this file exists")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {(row["task"], row["setting"], row["seed"]) for row in rows}
    wanted = [(task, s, seed) for seed in range(options.seeds) for task in options.tasks for s in settings(task)]
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool, options.out.open("a") as file:
        waiting = [pool.submit(deploy, *one, options.pause) for one in wanted if one not in done]
        for future in waiting:
            rows.append(future.result())
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
    for task in options.tasks:
        print_table(task, [row for row in rows if row["task"] == task])


if __name__ == "__main__":
    main()
