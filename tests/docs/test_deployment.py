"""The tables of docs/deployment.md are those of the figures in the repository."""

import importlib.util
import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_tables_are_those_of_the_figures(capsys):
    spec = importlib.util.spec_from_file_location("deployment", ROOT / "benchmarks" / "deployment.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = [json.loads(line) for line in (ROOT / "benchmarks" / "deployment.jsonl").read_text().splitlines()]
    assert len(rows) == 100
    for task in module.TASKS:
        module.print_table(task, [row for row in rows if row["task"] == task])
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == 7 * len(module.TASKS)
    assert all(line in page for line in lines)
