"""A store of version 1, as bitcycle 0.1 wrote it: after opening, all of it reads as before."""

import hashlib
import json
import multiprocessing
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bitcycle._study.deficits import DeficitPart
from bitcycle._study.driver import run_study
from bitcycle._study.exports import export
from bitcycle._study.migration import _to_version_2, upgraded_plan, version_1_name
from bitcycle._study.plan import Plan, StudyPart
from bitcycle._study.plan_file import stored_parts
from bitcycle._study.statistics import analyse
from bitcycle._study.statistics.deficits import analyse_deficits
from bitcycle._study.store import Store
from bitcycle._study.store_file import VERSION
from bitcycle.experiments.run_config import RunConfig, upgraded

DUMP = Path(__file__).with_name("store_version_1.sql").read_text()


@pytest.fixture
def old(tmp_path):
    return make_old(tmp_path / "s.sqlite")


def make_old(path):
    connection = sqlite3.connect(path)
    connection.executescript(DUMP)
    connection.close()
    return path


def rows(path, question):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(question).fetchall()
    finally:
        connection.close()


def content(path):
    connection = sqlite3.connect(path)
    try:
        return [connection.execute("PRAGMA user_version").fetchone(), *connection.iterdump()]
    finally:
        connection.close()


class Nothing:
    """An engine that must not get any run."""

    worker_count = thread_count = 1

    def outcomes(self, runs, store, watch):
        assert list(runs) == []
        yield from ()


def test_results_are_as_they_were(old):
    columns = "metric, higher_is_better, test, validation, best_step, bitops, seconds, extra, curve, versions"
    before = {
        name: (json.loads(run), *rest) for name, run, *rest in rows(old, f"SELECT name, run, {columns} FROM records")
    }
    assert all(version_1_name(run) == name for name, (run, *_) in before.items())
    with Store(old) as store:
        after = {version_1_name_of(each.run): each for each in store.records()}
    assert after.keys() == before.keys()
    assert len(after) == 13
    for name, (run, metric, higher, test, validation, step, bitops, seconds, extra, curve, versions) in before.items():
        each = after[name]
        assert each.run == RunConfig.from_dict(upgraded(run))
        assert (each.metric, each.higher_is_better, each.test, each.validation) == (
            metric,
            bool(higher),
            test,
            validation,
        )
        assert (each.best_step, each.bitops, each.seconds) == (step, int(bitops), seconds)
        assert (each.extra, each.curve, each.versions) == (json.loads(extra), json.loads(curve), json.loads(versions))


def version_1_name_of(run):
    back = {"test_weights": "keep", "diagnostics": "measured", "learning_rate": "rate"}
    return version_1_name({back.get(key, key): value for key, value in run.as_dict().items()})


def test_studies_failures_and_their_times(old):
    before = {name: rest for name, *rest in rows(old, "SELECT name, command, begun FROM studies")}
    [(traceback,)] = rows(old, "SELECT traceback FROM failures")
    last = max(written for (written,) in rows(old, "SELECT written FROM records"))
    with Store(old) as store:
        assert set(store.studies()) == {"tiny", "probe", "broken"}
        for name, (command, begun) in before.items():
            study = store.study(name)
            assert (study.command, study.begun, study.workers) == (command, begun, None)
            assert len(store.records(study.runs)) + len(store.failures(study.runs)) == len(study.runs)
        assert store.study("probe").ended == last  # the last run of the last study
        [failure] = store.failures(store.study("broken").runs)
        assert failure.traceback == traceback
        assert {len(store.study(name).runs) for name in ("tiny", "probe")} == {6, 7}


def test_a_run_of_the_plan_finds_everything_done(old):
    with Store(old) as store:
        before = [store.study(name) for name in store.studies()]
        for study in before:
            plan = Plan(study.name, tuple(stored_parts(study.plan)))
            assert plan.as_toml() == study.plan
            assert plan.runs() == list(study.runs)
            assert run_study(plan, store, Nothing(), "another command") == study


def test_the_reports_get_what_they_got(old):
    tests = {
        (json.loads(run)["schedule"], json.loads(run)["rate"]): test
        for run, test in rows(old, "SELECT run, test FROM records WHERE schedule LIKE 'deficit%'")
    }
    with Store(old) as store:
        [analysis] = analyse(store.records(store.study("tiny").runs))
        assert {setting.label for setting in analysis.settings} == {"CR", "static 8", "full"}
        [part] = stored_parts(store.study("probe").plan)
        assert isinstance(part, DeficitPart)
        found = analyse_deficits(part, store.records(store.study("probe").runs))
    deficits = {(point.place, point.arm): point.quality.mean for point in found.lengths if point.arm != "longer"}
    assert deficits == {
        (4, "held"): tests["deficit(1@0..4, static:8)", "hold@0..4"],
        (4, "restarted"): tests["deficit(1@0..4, static:8)", "restart@4"],
    }


def test_a_second_opening_changes_nothing(old):
    Store(old).close()
    migrated = content(old)
    assert migrated[0] == (VERSION,)
    Store(old).close()
    assert content(old) == migrated


def test_a_new_store_has_the_same_schema(old, tmp_path):
    Store(old).close()
    Store(tmp_path / "new.sqlite").close()
    columns = [
        [rows(path, f"SELECT name, type, pk FROM pragma_table_info('{table}')") for table in ("records", "studies")]
        for path in (old, tmp_path / "new.sqlite")
    ]
    assert columns[0] == columns[1]


def test_checkpoints_of_unfinished_runs_follow_their_names(old):
    connection = sqlite3.connect(old)
    [(name, run)] = connection.execute("SELECT name, run FROM records WHERE run LIKE '%restart@4%' LIMIT 1").fetchall()
    connection.execute("DELETE FROM records WHERE name = ?", (name,))
    connection.commit()
    connection.close()
    folder = old.with_suffix(".checkpoints") / name
    folder.mkdir(parents=True)
    (folder / "checkpoint.pt").write_text("here")
    with Store(old) as store:
        [missing] = [each for each in store.study("probe").runs if each.name not in store.done()]
        assert missing == RunConfig.from_dict(upgraded(json.loads(run)))
        assert missing.name != name
        assert (store.checkpoints / missing.name / "checkpoint.pt").read_text() == "here"
        assert store.study("probe").ended is None


@pytest.mark.parametrize("statements", [1, 2, 5, 20, 40, 43, 44, 45, 46, 47, 48, 49, 50, 60])
def test_a_kill_at_any_moment_leaves_the_old_store_or_the_new(old, tmp_path, statements):
    Store(make_old(tmp_path / "whole.sqlite")).close()
    script = (
        "import os, sqlite3, sys\n"
        "from bitcycle._study import store\n"
        "count = 0\n"
        "def trace(statement):\n"
        "    global count\n"
        "    count += 1\n"
        "    if count == int(sys.argv[2]): os.kill(os.getpid(), 9)\n"
        "def connect(*args, plain=sqlite3.connect, **options):\n"
        "    connection = plain(*args, **options)\n"
        "    connection.set_trace_callback(trace)\n"
        "    return connection\n"
        "sqlite3.connect = connect\n"
        "store.Store(sys.argv[1])\n"
        "sys.exit(count)\n"
    )
    before, after = content(old), content(tmp_path / "whole.sqlite")
    done = subprocess.run([sys.executable, "-c", script, str(old), str(statements)], check=False)
    assert done.returncode == -9 or 43 < done.returncode < statements
    assert content(old) in (before, after)
    with Store(old) as store:
        assert len(store.records()) == 13
    assert content(old) == after


def _open(path):
    with Store(path) as store:
        assert len(store.records()) == 13


def test_concurrent_openers_wait(old):
    context = multiprocessing.get_context("spawn")
    openers = [context.Process(target=_open, args=(old,)) for _ in range(4)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join()
        assert opener.exitcode == 0
    assert content(old)[0] == (VERSION,)


def test_a_read_only_store_gives_one_line(old, monkeypatch):
    before = content(old)
    plain = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **options: plain(f"file:{path}?mode=ro", uri=True, **options))
    with pytest.raises(
        OSError, match=r"s\.sqlite is a store of version 1 and cannot be upgraded .* read-only"
    ) as caught:
        Store(old)
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert content(old) == before
    Store(old).close()
    monkeypatch.setattr(sqlite3, "connect", lambda path, **options: plain(f"file:{path}?mode=ro", uri=True, **options))
    with Store(old) as store:  # version 2 is read without writing
        assert len(store.records()) == 13


def test_a_damaged_old_store_is_left_as_it_is(old):
    connection = sqlite3.connect(old)
    connection.execute("UPDATE members SET run = '{bad' WHERE place = 3")
    connection.commit()
    connection.close()
    before = content(old)
    with pytest.raises(ValueError, match="is damaged, so it cannot be upgraded"):
        Store(old)
    assert content(old) == before


def test_stored_plans_and_results_need_neither_tasks_nor_torch(old):
    """Not even the code of the task, which may be gone."""
    connection = sqlite3.connect(old)
    connection.execute("UPDATE members SET run = replace(run, '\"graph\"', '\"gone\"')")
    connection.execute("UPDATE records SET task = 'gone', run = replace(run, '\"graph\"', '\"gone\"')")
    connection.execute("UPDATE studies SET plan = replace(plan, '\"graph\"', '\"gone\"')")
    connection.commit()
    connection.close()
    script = (
        "import sys; from pathlib import Path\n"
        "from bitcycle._study.exports import export\n"
        "from bitcycle._study.plan_file import stored_parts\n"
        "from bitcycle._study.store import Store\n"
        "with Store(sys.argv[1]) as store:\n"
        "    for name in ('tiny', 'probe'):\n"
        "        study = store.study(name)\n"
        "        [part] = stored_parts(study.plan)\n"
        "        assert part.task == 'gone'\n"
        "        assert set(part.runs()) == set(study.runs)\n"
        "        assert len(store.records(study.runs)) == len(study.runs)\n"
        "    export(store.records(), Path(sys.argv[1]).with_suffix('.csv'))\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script, str(old)], check=True)
    assert old.with_suffix(".csv").read_text().count("gone") == 13


def test_an_export_has_the_new_names(old, tmp_path):
    with Store(old) as store:
        export(store.records(), tmp_path / "r.csv")
    heads = (tmp_path / "r.csv").read_text().splitlines()[0].split(",")
    assert {"test_weights", "diagnostics", "learning_rate"} <= set(heads)


@pytest.mark.parametrize("options", [{}, {"a": ("b",)}])
@pytest.mark.parametrize("task", ["language", "image"])
def test_a_plan_of_version_1_has_the_runs_that_its_members_have(task, options):
    """Language runs of version 1 had a grid per tensor, which is an option now, not the default."""
    part = StudyPart(task, ("CR", "static q_max"), ((3, 8),), (8,), (0, 1), 40, options=options)
    deficit = DeficitPart(task, (3, 8), 40, options={key: value[0] for key, value in options.items()})
    old = (
        Plan("old", (part, deficit))
        .as_toml()
        .replace("test_weights =", "keep =")
        .replace("diagnostics =", "measured =")
    )
    members = []
    for run in (*part.runs(), *deficit.runs()):
        values = run.as_dict()
        for name, before in (("test_weights", "keep"), ("diagnostics", "measured"), ("learning_rate", "rate")):
            values[before] = values.pop(name)
        members.append(RunConfig.from_dict(upgraded(values)))
    parts = stored_parts(upgraded_plan(old))
    assert [run for each in parts for run in each.runs()] == members
    assert {dict(run.options).get("activations") for run in members} == {"tensor" if task == "language" else None}


def test_version_2_reads_as_version_1_does(tmp_path):
    paths = [make_old(tmp_path / name) for name in ("one.sqlite", "two.sqlite")]
    connection = sqlite3.connect(paths[1])
    _to_version_2(connection, tmp_path)
    connection.execute("PRAGMA user_version = 2")
    connection.commit()
    connection.close()
    read = []
    for path in paths:
        with Store(path) as store:
            studies = [store.study(name) for name in store.studies()]
            of_studies = [list(store.all_records(study.name)) for study in studies]
            read.append(repr((studies, of_studies, store.records(), store.failures())))
    assert read[0] == read[1]
    assert content(paths[1])[0] == (VERSION,)


def test_a_store_of_version_3_gets_a_table_for_losses(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    connection = sqlite3.connect(path)
    connection.executescript("DROP TABLE examples; PRAGMA user_version = 3")
    connection.close()
    with Store(path) as store:
        assert store.example_losses([RunConfig("graph", "static:8", 4)]) == {}
    assert content(path)[0] == (VERSION,)


def test_digests_of_version_4_are_still_checked(old):
    """Rows that earlier versions wrote keep the hash of their columns as JSON."""
    with Store(old) as store:
        expected = store.records()
    connection = sqlite3.connect(old)
    for table in ("records", "failures"):
        for row in connection.execute(f"SELECT * FROM {table}").fetchall():
            connection.execute(f"UPDATE {table} SET digest = ? WHERE name = ?", (json_digest(row[:-1]), row[0]))
    for row in connection.execute("SELECT * FROM studies").fetchall():
        members = connection.execute("SELECT * FROM members WHERE study = ? ORDER BY place", row[:1]).fetchall()
        digest = json_digest([*row[:-1], [list(member) for member in members]])
        connection.execute("UPDATE studies SET digest = ? WHERE name = ?", (digest, row[0]))
    connection.execute("PRAGMA user_version = 4")
    connection.commit()
    with Store(old) as store:
        assert store.records() == expected
        assert all(store.study(name).runs for name in store.studies())
    connection.execute("UPDATE records SET test = test + 1e-9 WHERE seed = 0")
    connection.commit()
    connection.close()
    with Store(old) as store, pytest.raises(ValueError, match="damaged"):
        store.records()


def json_digest(columns):
    text = json.dumps(list(columns), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
