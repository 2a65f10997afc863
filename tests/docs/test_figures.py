"""What the README and the documentation say is what the figures in the repository say."""

import csv
import re

import pytest

from benchmarks.deployment import main
from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow


def test_the_readme_has_the_figures_of_the_repetitions_of_the_demo():
    with (ROOT / "benchmarks" / "demo.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    values = [float(row["spearman"]) for row in rows]
    supported = [row["verdict"] == "supported" for row in rows]
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    told = re.search(r"In (\d+) repetitions .*? supported (\d+) times, .*? between (\S+) and (\S+)\. ", text)
    assert told
    assert told.groups() == (str(len(rows)), str(sum(supported)), f"{min(values):.2f}", f"{max(values):.2f}")
    assert sum(supported) >= 0.95 * len(rows)


def test_the_tables_of_deployment_are_those_of_the_figures(tmp_path, capsys):
    tasks = ["image", "graph", "language", "entailment"]
    figures = tmp_path / "deployment.jsonl"
    figures.write_text((ROOT / "benchmarks" / "deployment.jsonl").read_text())
    main(tasks, out=figures)  # every run is done
    assert len(figures.read_text().splitlines()) == 100
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == 7 * len(tasks)
    assert all(line in page for line in lines)
