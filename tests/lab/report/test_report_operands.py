"""Reports, tables and exports show what moves apart from the schedule where a study uses it, and only there."""

import csv
import io

from bitcycle.cli.results import _table
from bitcycle.lab.report.columns import setting_columns, settings_csv
from bitcycle.lab.report.line_plots import Curves
from bitcycle.lab.report.study_section import StudySection
from tests.lab.report.test_report import undrawn
from tests.lab.statistics.made_up import only, record

HEALING = "join(static:4, 0.8, full)"


def moving():
    settings = [
        ("static:8", {}),
        ("static:4", {"activations": "static:8"}),
        ("static:4", {"strength": "join(linear-rise, 0.5, 1)"}),
        ("static:4", {"grid": "mx"}),
        (HEALING, {"backward_bits": 6}),
        ("full", {}),
    ]
    return [
        record(spec, seed, 0.9 + 0.01 * seed + 0.001 * i, **moves)
        for i, (spec, moves) in enumerate(settings)
        for seed in range(3)
    ]


def plain():
    return [
        record(spec, seed, 0.9 + 0.01 * seed) for spec in ("static:8", "CR:3-8:cycles=8", "full") for seed in range(3)
    ]


def headings(records):
    return [column.head for column in setting_columns(only(records))]


def body(records):
    with undrawn():
        return str(StudySection(0, only(records), Curves(records, [each.run.condition for each in records])).body())


def test_a_study_without_them_has_no_such_columns():
    assert not {"weights", "activations", "strength", "grid", "gradients"} & set(headings(plain()))


def test_the_csv_of_settings_always_has_them():
    rows = list(csv.DictReader(io.StringIO(settings_csv([only(moving())]))))
    healing = next(row for row in rows if row["schedule"] == HEALING)
    assert (healing["weights"], healing["strength"], healing["grid"], healing["gradients"]) == (
        HEALING,
        "1",
        "integer",
        "6",
    )
    apart = next(row for row in rows if row["activations"] == "static:8" and row["weights"] == "static:4")
    assert float(apart["mean_bits"]) == 6


def test_the_table_of_results():
    head, *lines = _table(moving(), {}).split("\n")
    assert all(name in head for name in ("activations", "strength", "grid"))
    assert "weights" not in head
    assert any("static:4" in line and "mx" in line for line in lines)
    everywhere = [record("static:4", seed, 0.9, activations="static:8") for seed in range(2)]
    assert "activations" in _table(everywhere, {})  # although no two runs differ in it


def test_the_page_draws_every_operand():
    page = body(moving())
    for words in (
        "weights: static:4",
        "activations: static:8",
        "strength: join(linear-rise, 0.5, 1)",
        "gradients: static:6",
    ):
        assert words in page
    assert "gradients:" not in body(plain())
