"""The store: what goes in comes out, nothing is half written, and what it does not know it leaves alone."""

import csv
import json
import math
import multiprocessing
import sqlite3
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.lab.studies.exports import export
from bitcycle.lab.studies.plan import Plan, Purpose, StudyPart
from bitcycle.lab.studies.rows import TABLES, row_of_result, with_digest  # noqa: F401 (used by a process)
from bitcycle.lab.studies.store import Store
from bitcycle.lab.studies.store_file import VERSION

RUN = RunConfig("image", "CR:2-8:cycles=8", 400, seed=1, options={"a": "b"})


def begin(store, name, runs):
    store.begin(name, dict.fromkeys(runs, Purpose.COMPARISON), "plan", "command")


def record(run=RUN, test=0.5, **values):
    return RunResult(run, "accuracy", True, test, 0.4, 300, 12 * 10**20, 3.5, {"COCO mAP": 0.1}, **values)


@given(test=st.floats(), validation=st.floats(), seconds=st.floats(0, 1e9), bitops=st.integers(0, 10**30))
def test_records_come_out_bit_for_bit(tmp_path_factory, test, validation, seconds, bitops):
    put = RunResult(
        RUN, "accuracy", True, test, validation, 7, bitops, seconds, {"x": test},
        [{"step": 1.0, "loss": validation}], {"torch": "2"},
    )  # fmt: skip
    with Store(tmp_path_factory.mktemp("store") / "s.sqlite") as store:
        store.write(put)
        [got] = store.records()
    assert repr(got) == repr(put)  # as text, because NaN equals nothing


def test_a_record_is_written_once(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.write(record(test=0.5))
        store.write(record(test=0.6))
        assert [each.test for each in store.records()] == [0.5]


def test_failures_until_success(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.fail(RUN, "Traceback\n  ...\nValueError: no")
        assert [each.reason for each in store.failures()] == ["ValueError: no"]
        store.clear_failures([RUN])
        assert store.failures() == []
        store.fail(RUN, "again")
        store.write(record())
        assert store.failures() == []


def test_studies_and_their_members(tmp_path):
    other = RunConfig("graph", "static:8", 4)
    with Store(tmp_path / "s.sqlite") as store:
        begin(store, "one", [RUN, other])
        store.write(record())
        assert store.study("one").runs == (RUN, other)
        assert [each.run for each in store.records(store.study("one").runs)] == [RUN]
        begin(store, "one", [other])
        assert store.study("one").runs == (other,)
        assert store.studies() == ["one"]
        with pytest.raises(ValueError, match="has no study 'on'; did you mean 'one'"):
            store.study("on")


def test_names_with_markup_and_quotes(tmp_path):
    hostile = "<script>alert('x')</script>; DROP TABLE records; --"
    with Store(tmp_path / "s.sqlite") as store:
        begin(store, hostile, [RunConfig("image", "static:8", 4, data=hostile)])
        assert store.study(hostile).runs[0].data == hostile


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_store_is_left_as_it_is(tmp_path, content):
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match="s.sqlite"):
        Store(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("column", ["batch_size", "test_weights", "options", "extra"])
def test_odd_rows_are_told_in_one_line(tmp_path, column):
    """The digest is that of the odd content, as if another program had written it."""
    with Store(tmp_path / "s.sqlite") as store:
        store.write(record())
        row = list(store._query("SELECT * FROM runs")[0][:-1])
        row[TABLES["runs"].index(column)] = b"{odd"
        store._insert("runs", with_digest(row))
        store._insert("studies", with_digest(["one", "plan", "command", "now", None, None, [[1, "x"]], []]))
        for question in (store.records, store.failures, lambda: store.outcome(RUN), lambda: store.study("one")):
            with pytest.raises(ValueError, match=r"s\.sqlite") as told:
                question()
            assert "\n" not in str(told.value)


RUNS = [RunConfig("image", "CR:2-8:cycles=8", 400, seed) for seed in range(6)]


def test_damaged_rows_are_skipped_named_and_deleted(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        begin(store, "one", RUNS)
        for run in RUNS[:4]:
            store.write(record(run))
        store.fail(RUNS[4], "Traceback")
        store._connection.execute("UPDATE runs SET test = 0.75 WHERE seed = 1")
        store._connection.execute("UPDATE runs SET metric = CAST(x'ff' AS TEXT) WHERE seed = 2")
        store._connection.execute("UPDATE runs SET traceback = 'other' WHERE seed = 4")
        found = []
        with pytest.raises(ValueError, match="damaged: the row of .*; the row of .*; the row of .*repeats their runs"):
            found.extend(store.outcomes())
        for each in store.outcomes(RUNS[:1]):
            assert each.run == RUNS[0]
        for question in (store.records, lambda: store.failures(RUNS), store.done, lambda: store.outcome(RUNS[1])):
            with pytest.raises(ValueError, match="damaged"):
                question()
        assert sorted(store.delete_damaged()) == sorted(RUNS[seed].name for seed in (1, 2, 4))
        assert {each.run.seed for each in store.records()} == {0, 3}
        assert store.failures() == []
        assert not store.delete_damaged()
        assert store.study("one").runs == tuple(RUNS)


def test_a_damaged_study_is_told_and_written_anew(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        begin(store, "one", RUNS)
        store._connection.execute("UPDATE studies SET workers = 3")
        for question in (lambda: store.study("one"), lambda: store.end("one")):
            with pytest.raises(ValueError, match="the study 'one' is damaged; start it again"):
                question()
        with pytest.raises(ValueError, match="damaged"):
            store.studies()
        begin(store, "one", RUNS)
        assert store.study("one").runs == tuple(RUNS)


def test_the_purpose_of_a_run_is_stored(tmp_path):
    part = DeficitPart("image", (3, 8), 100, lengths=(0.0, 1.0), window=0.0, seeds=(0,))
    compared = StudyPart("image", ("CR",), bits=((3, 8),), cycles=(8,), seeds=(0,), steps=100)
    plan = Plan("one", (compared, part))
    with Store(tmp_path / "s.sqlite") as store:
        store.begin("one", plan.purposes(), plan.as_toml(), "command", plan.deficits)
        study = store.study("one")
    assert study.deficits == (part,)
    assert {run for run, purpose in study.members.items() if purpose is Purpose.DEFICIT} == set(part.runs())
    assert [run for run, purpose in study.members.items() if purpose is Purpose.COMPARISON] == list(compared.runs())


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END", "trigger"),
        ("CREATE VIEW v AS SELECT * FROM runs", "view"),
    ],
)
def test_a_store_with_triggers_or_views_is_refused(tmp_path, statement, kind):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store._connection.execute(statement)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"s.sqlite has a {kind}, which no store has"):
        Store(path)
    assert path.read_bytes() == before


def test_a_damaged_store_is_refused(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        for seed in range(50):
            store.write(record(RunConfig("image", "static:8", 4, seed), curve=[{"loss": 0.5}] * 100))
    content = bytearray(path.read_bytes())
    content[5000:20000] = b"\x55" * 15000
    path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match="damaged"):
        Store(path)
    assert path.read_bytes() == content


def test_another_version_and_another_application_are_refused(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"version {VERSION + 1}, .*this bitcycle writes version {VERSION}"):
        Store(path)
    assert path.read_bytes() == before
    other_columns = tmp_path / "columns.sqlite"
    with Store(other_columns) as store:
        store._connection.execute("ALTER TABLE runs ADD COLUMN colour")
    with pytest.raises(ValueError, match="another version of bitcycle"):
        Store(other_columns)
    alien = tmp_path / "alien.sqlite"
    connection = sqlite3.connect(alien)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(ValueError, match="another program"):
        Store(alien)


def test_a_full_disk_loses_nothing(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.write(record())
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OSError, match="full.*not changed"):
            store.write(record(RunConfig("image", "static:8", 4), curve=[{"loss": 0.5}] * 10_000))
        assert len(store.records()) == 1
    with Store(tmp_path / "s.sqlite") as store:
        store.write(record(RunConfig("image", "static:8", 4)))
        assert len(store.records()) == 2


def _write_some(path, first):
    with Store(path) as store:
        for seed in range(first, first + 25):
            store.write(record(RunConfig("image", "static:8", 4, seed)))


def test_several_processes_write_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_some, args=(tmp_path / "s.sqlite", 20 * n)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    with Store(tmp_path / "s.sqlite") as store:
        assert sorted(each.run.seed for each in store.records()) == list(range(65))


def test_a_kill_in_the_middle_of_a_write_leaves_no_half_record(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    script = (
        "import os, sys; from tests.lab.studies.test_store import *\n"
        "store = Store(sys.argv[1])\n"
        "with store._transaction() as connection:\n"
        "    store._insert('runs', row_of_result(record(), 'now'))\n"
        "    store._insert('losses', (1, 2, 3))\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    with Store(path) as store:
        assert store.records() == []
        assert store._query("SELECT * FROM losses") == []


def test_no_text_in_a_csv_file_is_a_formula(tmp_path):
    hostile = RunConfig("image", "static:8", 4, model="=cmd|'/C calc'!A0", data="@x", options={"+a": "-b", "c": "-1.5"})
    export([record(hostile, test=-0.5)], tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        head, values = csv.reader(file)
    cells = dict(zip(head, values, strict=True))
    assert (cells["model"], cells["data"]) == ("'=cmd|'/C calc'!A0", "'@x")
    assert (cells["option +a"], cells["option c"], cells["test"]) == ("'-b", "-1.5", "-0.5")
    assert not any(cell.startswith(("=", "+", "@")) for cell in (*head, *values))


def test_an_export_that_fails_leaves_the_earlier_one(tmp_path):
    export([record()], tmp_path / "x.json")
    before = (tmp_path / "x.json").read_bytes()

    def failing():
        yield record()
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        export(failing(), tmp_path / "x.json")
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    assert (tmp_path / "x.json").read_bytes() == before


def test_exports(tmp_path):
    records = [
        record(curve=[{"step": 1.0, "validation": math.nan}], versions={"torch": "2"}),
        record(RunConfig("graph", "full", 3), test=math.nan),
    ]
    for suffix in (".csv", ".json", ".parquet"):
        export(records, tmp_path / f"results{suffix}")
    lines = (tmp_path / "results.csv").read_text().splitlines()
    assert len(lines) == 3
    assert "option a" in lines[0]
    loaded = json.loads((tmp_path / "results.json").read_text(), parse_constant=lambda text: pytest.fail(text))
    assert loaded[0]["bitops"] == 12 * 10**20
    assert loaded[1]["test"] == "nan"
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    assert table.num_rows == 2
    assert table["test"].to_pylist()[0] == 0.5
    with pytest.raises(ValueError, match="ends in .csv, .json, .parquet"):
        export(records, tmp_path / "results.xls")
    assert len(list(tmp_path.iterdir())) == 3
