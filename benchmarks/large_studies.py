"""Measure what large stores, large plans and models with many layers cost.

    python benchmarks/large_studies.py [--runs 50000] [--layers 2000] [--keep FOLDER]

Writes a store of invented results: ten schedules and three baselines at four pairs of bits and three numbers of cycles,
with as many seeds as needed and 20 points a curve. Prints wall time, CPU time and peak memory of each command on it,
then the time of a scheduler step, of `set_bits` and of `summary` for a model of many layers.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.plan import Plan
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.rows import row_of
from bitcycle.lab.studies.store import Store

POINTS = 20  # of a curve
SETTINGS = {"schedules": ["all"], "bits": [[2, 8], [3, 8], [4, 8], [3, 6]], "cycles": [2, 4, 8]}
VERSIONS = {"bitcycle": "0", "torch": "0", "python": "0", "threads": "1", "execution": "simulated"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50_000, help="at least so many results; default: 50000")
    parser.add_argument("--dry-runs", type=int, default=20_000, help="runs of a dry run; default: 20000")
    parser.add_argument("--layers", type=int, default=2_000, help="layers of the model; default: 2000")
    parser.add_argument("--keep", type=Path, help="folder for the store and what is written; default: a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        store = folder / "large.sqlite"
        if not store.exists():
            write_store(store, plan_with(options.runs))
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
        toml.write_text(plan_with(options.dry_runs).as_toml())
        measure_command("dry run", ["study", str(toml), "--dry-run", "--store", str(folder / "none.sqlite")])
    measure_model(options.layers)


def plan_with(runs: int) -> Plan:
    """Return a plan with at least so many runs."""
    values = {"task": "image", **SETTINGS, "steps": 400}
    per_seed = len(plan_of({**values, "seeds": 1}, "large").runs())
    return plan_of({**values, "seeds": -(-runs // per_seed)}, "large")


def write_store(path: Path, plan: Plan) -> None:
    """Write the invented results of a plan, in one transaction."""
    runs = plan.runs()
    print(f"writing {len(runs)} results", flush=True)
    with Store(path) as store:
        store.begin(plan.name, plan.purposes(), plan.as_toml(), "bitcycle study large.toml")
        with store._transaction():
            for run in runs:
                store._insert("runs", row_of(_result(run), "2026-01-01T00:00:00+00:00"))
        store.end(plan.name)


def _result(run: RunConfig) -> RunResult:
    chance = random.Random(run.name)
    quality = random.Random(run.schedule).uniform(0.8, 0.95)
    curve = []
    for point in range(1, POINTS + 1):
        validation = quality * (1 - 0.5**point) + chance.gauss(0, 0.01)
        step = run.steps * point // POINTS
        curve.append({"step": step, "bits": 8.0, "loss": chance.random() / point, "validation": validation})
    bitops = random.Random(run.schedule).randrange(10**14, 10**15)
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


def measure_model(layers: int) -> None:
    import torch

    import bitcycle as bc

    model = bc.quantize(torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(layers))))
    inputs = torch.randn(2, 4)
    scheduler = bc.PrecisionScheduler(
        model, bc.schedule("CR", bits=(2, 8), cycles=8), total_steps=10_000, backward_bits=8
    )
    bits = [2, 8]

    def set_bits() -> None:
        bits.reverse()
        bc.set_bits(model, forward=bits[0], backward=8)

    print(f"{layers} layers:")
    _print_time("scheduler step", scheduler.step, 1000)
    _print_time("set_bits", set_bits, 20)
    _print_time("summary(model)", lambda: str(bc.summary(model)), 3)
    _print_time("summary(model, inputs)", lambda: str(bc.summary(model, inputs)), 3)


def _print_time(what: str, call: Callable[[], object], repeats: int) -> None:
    call()
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        call()
    seconds, cpu = (time.perf_counter() - start) / repeats, (time.process_time() - cpu) / repeats
    print(f"{what:28} {1e3 * seconds:8.2f} ms, {1e3 * cpu:8.2f} ms of CPU", flush=True)


if __name__ == "__main__":
    main()
