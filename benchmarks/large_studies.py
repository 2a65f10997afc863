"""Measure what large stores and large plans cost.

    python -m benchmarks.large_studies [--runs 50000] [--dry-runs 20000]

Writes a store of made-up results: ten schedules and three baselines at four pairs of bits and three numbers of cycles,
with as many seeds as needed and 20 points a curve. Prints wall time, CPU time and peak memory of each command on it.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import typer

from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.plan import Plan
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.rows import row_of
from bitcycle.lab.studies.store import Store
from bitcycle.schedules import schedule

POINTS = 20  # of a curve
TABLE = {"schedules": ["all"], "bits": [[2, 8], [3, 8], [4, 8], [3, 6]], "cycles": [2, 4, 8], "steps": 400}
VERSIONS = {"bitcycle": "0", "torch": "0", "python": "0", "threads": "1", "execution": "simulated"}


def main(runs: int = 50_000, dry_runs: int = 20_000) -> None:
    """Measure commands on a store with at least so many results, and a dry run of so many runs."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        store = folder / "large.sqlite"
        plan = plan_with(runs)
        print(f"writing {len(plan.runs())} results", flush=True)
        with Store(store) as opened:
            opened.begin(plan.name, plan.purposes(), plan.as_toml(), "bitcycle study large.toml")
            with opened._transaction():
                for run in plan.runs():
                    opened._insert("runs", row_of(made_up_result(run), "2026-01-01T00:00:00+00:00"))
            opened.end(plan.name)
        print(f"the store has {store.stat().st_size / 1e6:.0f} MB", flush=True)
        commands = {
            "results": ["results"],
            "results of a study": ["results", "large"],
            "export to CSV": ["results", "--export", str(folder / "large.csv")],
            "export to JSON with curves": ["results", "--export", str(folder / "large.json")],
            "report": ["report", "large", "--out", str(folder / "report")],
        }
        for what, words in commands.items():
            measure_command(what, [*words, "--store", str(store)])
        toml = folder / "dry.toml"
        toml.write_text(plan_with(dry_runs).as_toml())
        measure_command("dry run", ["study", str(toml), "--dry-run", "--store", str(folder / "none.sqlite")])


def plan_with(runs: int) -> Plan:
    """Return a plan with at least so many runs."""
    per_seed = len(plan_of({"task": "image", **TABLE, "seeds": 1}, "large").runs())
    return plan_of({"task": "image", **TABLE, "seeds": -(-runs // per_seed)}, "large")


def made_up_result(run: RunConfig) -> RunResult:
    """Return a result whose quality grows with the mean bits of the schedule."""
    chance, mean_bits = random.Random(run.name), schedule(run.schedule).mean_bits(run.steps)
    quality = 0.8 + 0.02 * min(8.0, mean_bits)
    curve = []
    for point in range(1, POINTS + 1):
        validation = quality * (1 - 0.5**point) + chance.gauss(0, 0.01)
        step = run.steps * point // POINTS
        curve.append({"step": step, "bits": 8.0, "loss": chance.random() / point, "validation": validation})
    bitops = int(10**9 * run.steps * mean_bits**2)
    test = quality + chance.gauss(0, 0.01)
    return RunResult(run, "accuracy", True, test, quality, run.steps, bitops, 3.5, {}, curve, VERSIONS)


def measure_command(what: str, words: list[str]) -> None:
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "bitcycle", *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"{what} failed")
    cpu = usage.ru_utime + usage.ru_stime
    print(f"{what:28} {seconds:6.2f} s, {cpu:6.2f} s of CPU, {usage.ru_maxrss / 1e3:5.0f} MB", flush=True)


if __name__ == "__main__":
    typer.run(main)
