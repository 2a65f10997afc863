"""Draw the pictures of the README: ``python benchmarks/pictures.py`` writes them to docs/pictures.

The ten schedules, and quality against cost of the pilot study of ``bitcycle evidence`` on the graph of digits, whose
figures are in evidence/pilots.
"""

import csv
from pathlib import Path

from bitcycle._study.report.cost_plot import WIDE, cost_plot
from bitcycle._study.statistics import analyse
from bitcycle._support.charts.files import save
from bitcycle.experiments.result import RunResult
from bitcycle.experiments.run_config import RunConfig
from bitcycle.schedules import TEN, complete
from bitcycle.schedules.comparison import compare
from bitcycle.schedules.plot import draw_schedules

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
STUDY = ROOT / "evidence" / "pilots" / "digit-graph-schedules.csv"
STEPS_OF_STUDY = 150
STEPS = 64_000


def draw_ten(path):
    rows = compare((complete(name, (3, 8), 8) for name in TEN), STEPS)
    draw_schedules(sorted(rows, key=lambda row: -row.saving), STEPS, path)


def draw_cost(path):
    with STUDY.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["setting"].startswith("match")]  # controls
    records = [
        RunResult(
            RunConfig("graph", row["schedule"], STEPS_OF_STUDY, int(row["seed"])),
            metric="accuracy",
            higher_is_better=True,
            test=float(row["accuracy"]),
            validation=float(row["accuracy"]),
            best_step=STEPS_OF_STUDY,
            bitops=int(row["bitops"]),
            seconds=float(row["seconds"]),
        )
        for row in rows
    ]
    [analysis] = analyse(records)
    save(cost_plot(analysis, WIDE), path)


DRAWN = {"schedules.svg": draw_ten, "quality_cost.svg": draw_cost}


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        draw(PICTURES / name)
        print(f"written: docs/pictures/{name}")
