"""Do workers pay, and what does the engine itself take?

    python benchmarks/study.py [--steps 60] [--seeds 5]

Runs the digits study of `make demo` (13 settings, 5 seeds) twice, with one worker of one thread and with one worker a
core, and prints the ratio of the two times, and how much longer the study with one worker took than its runs alone:
what the engine takes for processes, checkpoints, progress and the store.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from bitcycle._study.driver import run_study
from bitcycle._study.engines.local import LocalEngine
from bitcycle._study.plan_file import plan_of
from bitcycle._study.store import Store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    plan = plan_of({"task": "image", "steps": options.steps, "seeds": options.seeds}, "digits")
    cores = os.cpu_count() or 1
    times, inside = {}, {}
    for workers in (1, cores):
        with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
            begun = time.perf_counter()
            run_study(plan, store, LocalEngine(workers, threads=1))
            times[workers] = time.perf_counter() - begun
            inside[workers] = sum(record.seconds for record in store.records())
        told = f"{workers} worker(s): {times[workers]:.1f} s for {len(plan.runs())} runs of {options.steps} steps"
        print(told, flush=True)
    print(f"{cores} workers are {times[1] / times[cores]:.2f} times as fast as one")
    print(f"the engine took {100 * (times[1] / inside[1] - 1):.1f} % of the time of the runs")


if __name__ == "__main__":
    main()
