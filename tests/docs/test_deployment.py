"""The tables of docs/deployment.md are those of the figures in the repository."""

from pathlib import Path

import pytest

from benchmarks.deployment import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_tables_are_those_of_the_figures(tmp_path, capsys):
    tasks = ["image", "graph", "language", "entailment"]
    figures = tmp_path / "deployment.jsonl"
    figures.write_text((ROOT / "benchmarks" / "deployment.jsonl").read_text())
    assert len(figures.read_text().splitlines()) == 100
    main(tasks, out=figures)  # every run is done
    assert len(figures.read_text().splitlines()) == 100
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == 7 * len(tasks)
    assert all(line in page for line in lines)
