"""Measure the speed-up by several workers, and the overhead of the study engine.

    python -m benchmarks.study [--steps 60] [--seeds 5]

Runs a study of the digits (13 settings, 5 seeds) twice: with one worker, and with one worker per core, on one
thread each. Prints the ratio of the two times, and how much longer the study with one worker takes than its runs alone,
which is the overhead of processes, checkpoints, progress and the store.
"""

import os
import tempfile
import time
from pathlib import Path

import typer

from bitcycle.lab.studies.driver import run_study
from bitcycle.lab.studies.engines.local import LocalEngine
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.store import Store


def main(steps: int = 60, seeds: int = 5) -> None:
    """Run a study of the digits with one worker, and with one worker per core."""
    plan = plan_of({"task": "image", "steps": steps, "seeds": seeds}, "digits")
    cores = os.cpu_count() or 1
    study_seconds, run_seconds = {}, {}
    for workers in (1, cores):
        with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
            start = time.perf_counter()
            run_study(plan, store, LocalEngine(workers, threads=1))
            study_seconds[workers] = time.perf_counter() - start
            run_seconds[workers] = sum(record.seconds for record in store.records())
        print(f"{workers} worker(s): {study_seconds[workers]:.1f} s for {len(plan.runs())} runs of {steps} steps")
    print(f"{cores} workers are {study_seconds[1] / study_seconds[cores]:.2f} times as fast as one")
    overhead = study_seconds[1] / run_seconds[1] - 1
    print(f"the overhead of the engine is {100 * overhead:.1f} % of the time of the runs")


if __name__ == "__main__":
    typer.run(main)
