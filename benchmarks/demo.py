"""How often does `make demo` come to its main finding? The study of the demo, repeated with other random seeds.

    python -m benchmarks.demo [--repetitions 20] [--workers 0] [--store out/demo_repetitions.sqlite]

Each repetition has random seeds of its own. The same command continues where it stopped. Prints the finding of every
repetition, and how many support it, and writes them to benchmarks/demo.csv. All 20 take about an hour on two cores.
"""

import csv
from dataclasses import replace
from pathlib import Path

import typer

from bitcycle.cli.progress import StudyBar
from bitcycle.lab.statistics import analyse
from bitcycle.lab.statistics.analysis import ClaimKind, Over
from bitcycle.lab.studies.driver import run_study
from bitcycle.lab.studies.engines.local import LocalEngine
from bitcycle.lab.studies.plan import Plan
from bitcycle.lab.studies.plan_file import read_plan
from bitcycle.lab.studies.store import Store

DEMO = Path(__file__).with_name("demo.toml")


def main(repetitions: int = 20, workers: int = 0, store: Path = Path("out/demo_repetitions.sqlite")) -> None:
    """Repeat the study of `make demo` with other random seeds."""
    [part] = read_plan(DEMO).parts
    size = len(part.seeds)
    parts = [replace(part, seeds=tuple(range(i * size, (i + 1) * size))) for i in range(repetitions)]
    rows = []
    with Store(store) as opened:
        with StudyBar() as bar:
            run_study(Plan("demo", tuple(parts)), opened, LocalEngine(workers, threads=1), watch=bar.follow)
        for part in parts:
            [analysis] = analyse(opened.records(part.runs()))
            finding = next(claim for claim in analysis.claims if claim.kind is ClaimKind.QUALITY_FOLLOWS_COST)
            found = analysis.correlation(Over.SETTINGS)
            numbers = [f"{number:.3f}" for number in (found.value, found.low, found.high)]
            rows.append([f"{part.seeds[0]}-{part.seeds[-1]}", *numbers, finding.verdict])
            print("seeds {}: Spearman {} ({} to {}), {}".format(*rows[-1]))
    print(f"supported in {sum(row[-1] == 'supported' for row in rows)} of {repetitions} repetitions")
    with DEMO.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([["seeds", "spearman", "low", "high", "verdict"], *rows])


if __name__ == "__main__":
    typer.run(main)
