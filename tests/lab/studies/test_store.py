"""The store: what goes in comes out, nothing is half written, and what it does not know it leaves alone."""

import csv
import json
import math
import multiprocessing
import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitcycle.lab.runs import training
from bitcycle.lab.runs.checkpoints import has_checkpoint
from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies import store as store_module
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.lab.studies.driver import run_study
from bitcycle.lab.studies.engines.worker import work
from bitcycle.lab.studies.exports import export
from bitcycle.lab.studies.plan import Plan, Purpose, StudyPart
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.rows import row_of
from bitcycle.lab.studies.store import VERSION, Store

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


def test_a_result_is_written_once_and_replaces_failures(tmp_path):
    failure = RunFailure(RUN, "Traceback\n  ...\nValueError: no")
    with Store(tmp_path / "s.sqlite") as store:
        store.write(failure)
        assert store.outcome(RUN) == failure
        assert [each.reason for each in store.failures()] == ["ValueError: no"]
        store.clear_failures([RUN])
        assert store.failures() == []
        store.write(failure)
        store.write(record(test=0.5))
        store.write(record(test=0.6))
        store.write(failure)
        assert [each.test for each in store.records()] == [0.5]
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


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_store_is_left_as_it_is(tmp_path, content):
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match="s.sqlite"):
        Store(path)
    assert path.read_bytes() == content


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
    ("statement", "message"),
    [
        (f"PRAGMA user_version = {VERSION + 1}", rf"version {VERSION + 1}, .*this bitcycle writes version {VERSION}"),
        ("ALTER TABLE runs ADD COLUMN colour", "another version of bitcycle"),
        ("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END", "another version of bitcycle"),
        ("CREATE VIEW v AS SELECT * FROM runs", "another version of bitcycle"),
        ("PRAGMA application_id = 7", "another program"),
    ],
)
def test_a_file_of_another_version_or_program_is_refused(tmp_path, statement, message):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store._connection.execute(statement)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        Store(path)
    assert path.read_bytes() == before


def test_checkpoints_stay_beside_the_store_if_a_task_changes_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(training, "prepare", lambda *_, plain=training.prepare: os.chdir("elsewhere") or plain(*_))
    run = RunConfig("graph", "static:8", 1)
    with Store("s.sqlite") as store:
        work(run, store.checkpoints / run.name)
    assert has_checkpoint(tmp_path / "s.checkpoints" / run.name)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_kill_in_the_middle_of_a_write_leaves_no_half_record(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    script = (
        "import os, sys; from tests.lab.studies.test_store import *\n"
        "store = Store(sys.argv[1])\n"
        "with store._transaction() as connection:\n"
        "    store._insert('runs', row_of(record(), 'now'))\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    with Store(path) as store:
        assert store.records() == []


# --- Damage

ONE, TWO = (
    plan_of({"task": "image", "schedules": names, "bits": [3, 8], "seeds": 3, "steps": 8}, study)
    for study, names in (("one", ["CR", "static q_max"]), ("two", ["CT", "static q_min"]))
)
RUNS = [*ONE.runs(), *TWO.runs()]
NAMES = [run.name for run in RUNS]

QUESTIONS = {
    "studies": lambda store: store.studies(),
    "one study": lambda store: store.study("one"),
    "all outcomes": lambda store: list(store.outcomes()),
    "results of a study": lambda store: store.records(store.study("one").runs, with_curves=False),
    "one outcome": lambda store: store.outcome(RUNS[0]),
    "failures": lambda store: store.failures(RUNS),
    "done": lambda store: sorted(store.done(NAMES)),
}


class Pretending:
    """An engine that invents outcomes: a failure for seed 1, and a result with a long curve for seed 2."""

    worker_count = thread_count = 1

    def outcomes(self, runs, store, watch):
        for run in runs:
            if run.seed == 1:
                yield RunFailure(run, "Traceback\nValueError: no")
            else:
                curve = [{"step": float(step), "loss": 1 / (step + 1)} for step in range(3 + 100 * run.seed)]
                yield RunResult(run, "accuracy", True, 0.5 + run.seed / 7, 0.4, 3, 10**20, 3.5, {"mAP": 0.1}, curve)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A store in which a result and a failure are missing, with inner nodes, leaves, overflow pages and free pages."""
    path = tmp_path_factory.mktemp("intact") / "s.sqlite"
    with Store(path) as store:
        for plan in (TWO, ONE):
            run_study(plan, store, Pretending())
        with store._transaction() as connection:
            connection.execute("DELETE FROM runs WHERE name IN (?, ?)", (RUNS[-1].name, RUNS[2].name))
        other = RunConfig("image", "full", 8)
        store.write(RunFailure(other, "x" * 50_000))
        store.clear_failures([other])  # leaves free pages
        pages, free = (store._pragma(f"{name}_count") for name in ("page", "freelist"))
        assert pages > 20
        assert free > 5
        assert len(store.records()) == 7
        assert len(store.failures()) == 3
    return path


def answers(path):
    """Return the answer to each question, or the line that refuses it."""
    with Store(path) as store:
        return {name: answer(store, question) for name, question in QUESTIONS.items()}


def answer(store, question):
    try:
        return repr(question(store))
    except (ValueError, OSError) as told:
        return one_line(told)


def one_line(told):
    assert "s.sqlite" in str(told)
    assert "\n" not in str(told)


def repaired(path):
    """Start the studies again, and return everything that is known then."""
    with Store(path) as store:
        for plan in (TWO, ONE):
            run_study(plan, store, Pretending())
        studies = [replace(store.study(name), workers=None, begun="", ended="") for name in sorted(store.studies())]
        return repr((studies, store.records(), store.failures()))


def changed_copy(intact, folder, places):
    content = bytearray(intact.read_bytes())
    for place in places:
        content[place // 8] ^= 1 << place % 8
    path = folder / "s.sqlite"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_an_answer_is_right_or_refused_after_bits_have_changed(intact, tmp_path, seed):
    """A study that is started again repairs the store."""
    chance = random.Random(seed)
    expected, whole = answers(intact), repaired(changed_copy(intact, tmp_path, ()))
    for number in range(40):
        places = [chance.randrange(8 * intact.stat().st_size) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        path = changed_copy(intact, tmp_path, places)
        content = path.read_bytes()
        try:
            for question, got in answers(path).items():
                assert got in (None, expected[question]), (question, places)
            assert path.read_bytes() == content
            if number % 5 == 0:
                assert repaired(path) == whole, places
        except (ValueError, OSError) as refused:  # the file itself, when it is opened
            one_line(refused)


def test_a_run_whose_name_has_changed_is_not_taken_for_missing(intact, tmp_path):
    """The row is not found under its name, so that nobody looks at its digest. Its index entry has the right name."""
    name = RUNS[0].name
    content = intact.read_bytes()
    assert content.count(name.encode()) == 2  # the row and its index entry
    for place in (content.find(name.encode()), content.rfind(name.encode())):
        for position in range(0, 16, 5):
            path = changed_copy(intact, tmp_path, [8 * (place + position) + 4])
            with pytest.raises(ValueError, match="s.sqlite is damaged .*; nothing was changed"):
                Store(path)


@pytest.mark.parametrize(
    ("change", "damaged"),
    [
        ("UPDATE runs SET test = 0.75 WHERE name = ?", RUNS[0].name),
        ("UPDATE runs SET metric = CAST(x'ff' AS TEXT) WHERE name = ?", RUNS[0].name),
        ("UPDATE runs SET traceback = 'other' WHERE name = ?", RUNS[0].name),
        *((f"UPDATE studies SET {column} = 'x' || {column} WHERE name = ?", "two") for column in ("plan", "members")),
        ("UPDATE studies SET workers = 3 WHERE name = ?", "two"),
    ],
)
def test_a_damaged_row_is_refused_and_deleted(intact, tmp_path, change, damaged):
    whole = repaired(changed_copy(intact, tmp_path, ()))
    path = changed_copy(intact, tmp_path, ())
    with Store(path) as store:
        store._connection.execute(change, [damaged])
        asked = [store.studies, lambda: store.study("two"), lambda: store.end("two")]
        if damaged != "two":
            asked = [store.records, lambda: store.failures(RUNS), store.done, lambda: store.outcome(RUNS[0])]
        for question in asked:
            with pytest.raises(
                ValueError, match=f"damaged: the row of '{damaged}' does not match.* repeats their runs"
            ):
                question()
        assert len(store.records(RUNS[3:6])) == 2  # other rows can be read
        assert store.delete_damaged() == [damaged]
        assert store.delete_damaged() == []
        assert set(store.studies()) == {"one", "two"} - {damaged}
    assert repaired(path) == whole


# --- Large stores: what a question costs, counted instead of timed

MANY = [RunConfig("image", "static:8", 4, seed) for seed in range(700)]  # more than one query asks for


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "s.sqlite"
    with Store(path) as store, store._transaction():
        for run in MANY[:-1]:
            result = RunResult(run, "accuracy", True, run.seed / 1000, 0.5, 4, 1, 1.0, curve=[{"loss": 0.5}])
            store._insert("runs", row_of(result, "now"))
        store._insert("runs", row_of(RunFailure(MANY[-1], "Traceback"), "now"))
    return path


@pytest.mark.parametrize(("runs", "first"), [(None, 0), (MANY, 0), ([MANY[3]], 3)])
def test_results_are_read_one_after_the_other(large, monkeypatch, runs, first):
    read = []
    plain = store_module.outcome_of
    monkeypatch.setattr(store_module, "outcome_of", lambda row, *rest: read.append(row[0]) or plain(row, *rest))
    with Store(large) as store:
        assert next(store.outcomes(runs)).run == MANY[first]
    assert read == [MANY[first].name]


def test_all_ways_to_read_agree(large):
    with Store(large) as store:
        assert [each.run for each in store.records()] == MANY[:-1]
        assert store.records(MANY) == store.records()
        assert [each.run for each in store.records(MANY[::-7])] == [run for run in MANY[::-7] if run is not MANY[-1]]
        assert [each.run for each in store.failures()] == [MANY[-1]]
        assert [each.curve for each in store.records(MANY[:3], with_curves=False)] == [[]] * 3
        assert len(store.done()) == len(store.done(run.name for run in MANY)) == 699


# --- Exports


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
