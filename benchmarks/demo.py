"""How often does `make demo` come to its main finding? The study of the demo, repeated with other random seeds.

    python benchmarks/demo.py [--repetitions 20] [--workers 0] [--store out/demo_repetitions.sqlite]

Each repetition has random seeds of its own. The same command continues where it stopped. Prints the finding of every
repetition, and how many support it, and writes them to benchmarks/demo.csv. All 20 take about an hour on two cores.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import replace
from pathlib import Path

from bitcycle.cli.study import StudyBar
from bitcycle.lab.statistics import analyse
from bitcycle.lab.statistics.claims import QualityFollowsCost
from bitcycle.lab.studies.driver import run_study
from bitcycle.lab.studies.engines.local import LocalEngine
from bitcycle.lab.studies.plan import Plan
from bitcycle.lab.studies.plan_file import read_plan
from bitcycle.lab.studies.store import Store

DEMO = Path(__file__).with_name("demo.toml")
REPETITIONS = Path(__file__).with_name("demo.csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--store", type=Path, default=Path("out/demo_repetitions.sqlite"))
    arguments = parser.parse_args()
    [part] = read_plan(DEMO).parts
    size = len(part.seeds)
    plans = [
        Plan(f"demo {i}", (replace(part, seeds=tuple(range(i * size, (i + 1) * size))),))
        for i in range(arguments.repetitions)
    ]
    everything = Plan("demo", tuple(part for plan in plans for part in plan.parts))
    rows = []
    with Store(arguments.store) as store:
        with StudyBar() as bar:
            run_study(everything, store, LocalEngine(arguments.workers, threads=1), watch=bar.update)
        for plan in plans:
            [analysis] = analyse(store.records(plan.runs()))
            finding = next(claim for claim in analysis.claims if isinstance(claim, QualityFollowsCost))
            found = finding.over_settings
            seeds = plan.parts[0].seeds
            numbers = [f"{number:.3f}" for number in (found.value, found.low, found.high)]
            rows.append([f"{seeds[0]}-{seeds[-1]}", *numbers, finding.verdict])
            print("seeds {}: Spearman {} ({} to {}), {}".format(*rows[-1]))
    supported = sum(row[-1] == "supported" for row in rows)
    print(f"supported in {supported} of {arguments.repetitions} repetitions")
    with REPETITIONS.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([["seeds", "spearman", "low", "high", "verdict"], *rows])


if __name__ == "__main__":
    main()
