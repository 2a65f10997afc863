"""Does training on a precision schedule help a model that is deployed at few bits?

    python -m benchmarks.deployment [--seeds 5] [--workers 1] [--out out/deployment.jsonl] [task ...]

Trains each embedded task in full precision, at static q_max, at static 4 bits and on two schedules, over several seeds,
on one thread per run, and evaluates every trained model on the test set in full precision and at 8, 6, 4, 3 and 2 bits.
Each run is one line of the output file; the same command continues where it stopped. Prints one table per task: the
mean over seeds, and the paired difference from static q_max with its 95 % confidence interval (Student's t).
"""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import typer

from benchmarks.common import markdown_table, run_in_processes
from bitcycle.lab.runs.deployment import metric_at, prepare_trained
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.statistics.estimates import compare, t_interval
from bitcycle.lab.tasks import task_named
from bitcycle.schedules import schedule as parse_schedule

STATIC = "static q_max"
WIDTHS = ("full", "8", "6", "4", "3", "2")
Job = tuple[str, str, int]
"""A task, a setting and a seed."""


def settings(name: str) -> dict[str, str]:
    """Return the schedules of a task, by the name of their row."""
    task = task_named(name)
    cyclic = {kind: str(parse_schedule(kind, task.bits, task.cycles)) for kind in ("CR", "RTH")}
    return {"full precision": "full", STATIC: f"static:{task.bits[1]}", "static 4": "static:4", **cyclic}


def deploy(job: Job) -> dict[str, Any]:
    name, setting, seed = job
    task = task_named(name)
    # Gradients at q_max in all settings, as in a study, so that static 4 differs from static q_max in its width alone.
    backward = None if setting == "full precision" else task.bits[1]
    run = RunConfig(name, settings(name)[setting], task.steps, seed, backward)
    _, model = train(run)
    return {"task": name, "setting": setting, "seed": seed, **metric_at(prepare_trained(run, model.state_dict()))}


def cell(rows: list[dict[str, Any]], setting: str, width: str) -> str:
    """Return the mean of a setting, and its difference from static q_max over the seeds that both have."""
    own, static = ({row["seed"]: row[width] for row in rows if row["setting"] == name} for name in (setting, STATIC))
    own = {seed: value for seed, value in own.items() if seed in static}
    if not own:
        return ""
    found = t_interval(compare(own, static, 1))
    gain = "" if setting == STATIC else f" ({found.mean:+.4g} ± {found.high - found.mean:.2g})"
    return f"{fmean(own.values()):.4g}{gain}"


def main(
    tasks: list[str] = typer.Argument(["image", "graph", "language", "entailment"]),
    seeds: int = 5,
    workers: int = 1,
    out: Path = Path("out/deployment.jsonl"),
) -> None:
    """Train tasks on schedules and at static widths, and test the models at few bits."""
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(row["task"], row["setting"], row["seed"]) for row in rows}
    wanted = [(task, setting, seed) for seed in range(seeds) for task in tasks for setting in settings(task)]
    with out.open("a") as file:
        for row in run_in_processes(deploy, [job for job in wanted if job not in done], workers):
            rows.append(row)
            print(json.dumps(row), file=file, flush=True)
    for task in tasks:
        of_task = [row for row in rows if row["task"] == task]
        lines = [[name, *(cell(of_task, name, width) for width in WIDTHS)] for name in settings(task)]
        print(f"\n{task}, {task_named(task).metric}, {len({row['seed'] for row in of_task})} seeds\n")
        print(markdown_table(["trained", "full", *(f"{width} bits" for width in WIDTHS[1:])], lines))


if __name__ == "__main__":
    typer.run(main)
