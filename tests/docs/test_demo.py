"""The README says of the demo what its repetitions found."""

import csv
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_readme_has_the_figures_of_the_repetitions():
    with (ROOT / "benchmarks" / "demo.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    values = [float(row["spearman"]) for row in rows]
    supported = [row["verdict"] == "supported" for row in rows]
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    told = re.search(r"In (\d+) repetitions .*? supported (\d+) times, .*? between (\S+) and (\S+)\. ", text)
    assert told
    assert told.groups() == (str(len(rows)), str(sum(supported)), f"{min(values):.2f}", f"{max(values):.2f}")
    assert sum(supported) >= 0.95 * len(rows)
