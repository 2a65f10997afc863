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

from bitcycle._study.exports import export
from bitcycle._study.rows import digest_of, digest_of_study
from bitcycle._study.store import Store
from bitcycle._study.store_file import VERSION
from bitcycle.experiments.result import RunResult
from bitcycle.experiments.run_config import RunConfig

RUN = RunConfig("image", "CR:2-8:cycles=8", 400, seed=1, options={"a": "b"})


def record(run=RUN, test=0.5, **values):
    return RunResult(run, "accuracy", True, test, 0.4, 300, 12 * 10**20, 3.5, {"COCO mAP": 0.1}, **values)


numbers = st.floats().map(lambda number: number + 0.0)  # SQLite knows no negative zero


@given(test=numbers, validation=numbers, seconds=st.floats(0, 1e9), bitops=st.integers(0, 10**30))
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
        store.begin("one", [RUN, other], "plan", "command")
        store.write(record())
        assert store.study("one").runs == (RUN, other)
        assert [each.run for each in store.records(store.study("one").runs)] == [RUN]
        store.begin("one", [other], "plan", "command")
        assert store.study("one").runs == (other,)
        assert store.studies() == ["one"]
        with pytest.raises(ValueError, match="has no study 'on'; did you mean 'one'"):
            store.study("on")


def test_names_with_markup_and_quotes(tmp_path):
    hostile = "<script>alert('x')</script>; DROP TABLE records; --"
    with Store(tmp_path / "s.sqlite") as store:
        store.begin(hostile, [RunConfig("image", "static:8", 4, data=hostile)], hostile, hostile)
        assert store.study(hostile).runs[0].data == hostile


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_store_is_left_as_it_is(tmp_path, content):
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match="s.sqlite"):
        Store(path)
    assert path.read_bytes() == content


ODD_RUNS = ["{bad", "[]", "{}", '{"task": "image", "schedule": "full", "steps": 1, "colour": 1}', '{"task": []}', "1"]


@pytest.mark.parametrize("run", ODD_RUNS)
@pytest.mark.parametrize("sealed", [True, False])
def test_odd_rows_are_told_in_one_line(tmp_path, run, sealed):
    """Whether the digest is that of the odd content, as if another program had written it, or not."""
    with Store(tmp_path / "s.sqlite") as store:
        store.begin("one", [RUN], "plan", "command")
        store.write(record())
        store.fail(RunConfig("image", "static:8", 4), "Traceback")
    connection = sqlite3.connect(tmp_path / "s.sqlite")
    for table in ("records", "failures", "members"):
        connection.execute(f"UPDATE {table} SET run = ?", (run,))
    if sealed:
        for table in ("records", "failures"):
            [row] = connection.execute(f"SELECT * FROM {table}").fetchall()
            connection.execute(f"UPDATE {table} SET digest = ?", (digest_of(row[:-1]),))
        [study], members = (connection.execute(f"SELECT * FROM {name}").fetchall() for name in ("studies", "members"))
        connection.execute("UPDATE studies SET digest = ?", (digest_of_study(study[:-1], members),))
    connection.commit()
    connection.close()
    with Store(tmp_path / "s.sqlite") as store:
        for question in (store.records, store.failures, lambda: store.study("one")):
            with pytest.raises(ValueError, match=r"s\.sqlite") as told:
                question()
            assert "\n" not in str(told.value)


RUNS = [RunConfig("image", "CR:2-8:cycles=8", 400, seed) for seed in range(6)]


def test_damaged_rows_are_set_aside_and_their_runs_are_missing(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.begin("one", RUNS, "plan", "command")
        for run in RUNS[:4]:
            store.write(record(run))
        store.fail(RUNS[4], "Traceback")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE records SET test = 0.75 WHERE seed = 1")
    connection.execute("UPDATE records SET metric = CAST(x'ff' AS TEXT) WHERE seed = 2")
    connection.execute("UPDATE failures SET traceback = 'other'")
    connection.commit()
    connection.close()
    with Store(path) as store:
        with pytest.raises(ValueError, match=r"damaged: the row of .*; the row of .*repeats their runs"):
            store.records()
        with pytest.raises(ValueError, match="damaged"):
            store.failures(RUNS)
        assert store.set_aside_damage() == {"records": 2, "failures": 1}
        assert {each.run.seed for each in store.records()} == {0, 3}
        assert store.failures() == []
        assert not store.set_aside_damage()
        kept = store._rows("SELECT origin, content FROM damaged")
        assert sorted(origin for origin, _ in kept) == ["failures", "records", "records"]
        assert all(len(json.loads(content)) in (5, 17) for _, content in kept)


def test_a_column_of_another_type_is_told(tmp_path):
    """A number in the place of a text would make SQLite compare the name 1e5 with 100000."""
    path = tmp_path / "s.sqlite"
    Store(path).close()
    content = path.read_bytes()
    path.write_bytes(
        content.replace(b"CREATE TABLE records (\n    name TEXT", b"CREATE TABLE records (\n    name TEYT")
    )
    assert path.read_bytes() != content
    with pytest.raises(ValueError, match="damaged .its tables have other columns"):
        Store(path)


def test_a_study_that_lost_a_member_is_told_and_written_anew(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.begin("one", RUNS, "plan", "command")
        store._connection.execute("DELETE FROM members WHERE place = 3")
        for question in (lambda: store.study("one"), lambda: list(store.all_records("one"))):
            with pytest.raises(ValueError, match="the study 'one' is damaged; start it again"):
                question()
        with pytest.raises(ValueError, match="damaged"):
            store.end("one")
        store.begin("one", RUNS, "plan", "command")
        assert store.study("one").runs == tuple(RUNS)


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
    with pytest.raises(ValueError, match=f"version {VERSION + 1}, but .* writes version {VERSION}"):
        Store(path)
    assert path.read_bytes() == before
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
        "import os, sys; from tests.study.test_store import *\n"
        "store = Store(sys.argv[1])\n"
        "with store._transaction() as connection:\n"
        "    connection.execute('INSERT INTO failures VALUES (1, 2, 3, 4, 5)')\n"
        "    connection.execute('INSERT INTO studies VALUES (1, 2, 3, 4, 5, 6, 7)')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    with Store(path) as store:
        assert store.studies() == []
        assert store._rows("SELECT * FROM failures") == []


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
