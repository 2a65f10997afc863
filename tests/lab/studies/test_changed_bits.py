"""Bits of a store change: an answer is right or refused in one line, and a study that is started again repairs it.

The store has small pages, so that it has all kinds of them: inner nodes, leaves, overflow pages and free pages.
"""

import random
import sqlite3
from dataclasses import replace

import pytest

from bitcycle._study import store_file as storing
from bitcycle._study.driver import run_study
from bitcycle._study.plan_file import plan_of
from bitcycle._study.store import Store
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig

ONE, TWO = (
    plan_of({"task": "image", "schedules": names, "bits": [3, 8], "seeds": 3, "steps": 8}, study)
    for study, names in (("one", ["CR", "static q_max"]), ("two", ["CT", "static q_min"]))
)
RUNS = [*ONE.runs(), *TWO.runs()]
NAMES = [run.name for run in RUNS]

QUESTIONS = {
    "studies": lambda store: store.studies(),
    "one study": lambda store: store.study("one"),
    "plans": lambda store: store.deficit_plans(["one", "two"]),
    "all results": lambda store: list(store.all_records()),
    "results of a study": lambda store: list(store.all_records("one", with_curves=False)),
    "results of some runs": lambda store: store.records(RUNS),
    "result of one run": lambda store: store.records(RUNS[:1]),
    "all failures": lambda store: list(store.all_failures()),
    "failures of a study": lambda store: list(store.all_failures("one")),
    "failures of some runs": lambda store: store.failures(RUNS),
    "done": lambda store: sorted(store.done()),
    "done of some": lambda store: sorted(store.done(NAMES)),
}


class Pretending:
    """An engine that invents outcomes: a failure for seed 1, and a result with a long curve for seed 2."""

    worker_count = thread_count = 1

    def outcomes(self, runs, store, watch):
        for run in runs:
            if run.seed == 1:
                yield RunFailure(run, "Traceback\nValueError: no")
            else:
                curve = [{"step": float(step), "loss": 1 / (step + 1)} for step in range(3 + 10 * run.seed)]
                yield RunResult(run, "accuracy", True, 0.5 + run.seed / 7, 0.4, 3, 10**20, 3.5, {"mAP": 0.1}, curve)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A store in which a result and a failure are missing."""
    path = tmp_path_factory.mktemp("intact") / "s.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storing, "PAGE", 512)
        with Store(path) as store:
            for plan in (TWO, ONE):
                run_study(plan, store, Pretending())
            with store._transaction() as connection:
                connection.execute("DELETE FROM records WHERE name = ?", (RUNS[-1].name,))
                connection.execute("DELETE FROM failures WHERE name = ?", (RUNS[2].name,))
            other = RunConfig("image", "full", 8)
            store.fail(other, "x" * 5000)
            store.clear_failures([other])  # leaves free pages
            pages, free = (store._number(f"PRAGMA {name}_count") for name in ("page", "freelist"))
            assert pages > 30
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
        return repr((studies, store.records(), store.failures(), list(store.all_records("one"))))


def changed_copy(intact, folder, places):
    content = bytearray(intact.read_bytes())
    for place in places:
        content[place // 8] ^= 1 << place % 8
    path = folder / "s.sqlite"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("seed", range(2))
def test_an_answer_is_right_or_refused(intact, tmp_path, seed):
    chance = random.Random(seed)
    expected, whole = answers(intact), repaired(changed_copy(intact, tmp_path, ()))
    for number in range(100):
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


@pytest.mark.parametrize("table", ["records", "failures"])
@pytest.mark.parametrize("position", range(0, 16, 3))
def test_a_run_whose_name_has_changed_is_not_taken_for_missing(intact, tmp_path, table, position):
    """The row is not found under its name, so that nobody looks at its digest."""
    path = changed_copy(intact, tmp_path, ())
    with Store(path) as store:
        name = max(each.run.name for each in (store.records() if table == "records" else store.failures()))
    other = name[:position] + chr(ord(name[position]) ^ 0x10) + name[position + 1 :]
    following = "im" if table == "records" else '{"'  # the next column
    before = path.read_bytes()
    path.write_bytes(before.replace(f"{name}{following}".encode(), f"{other}{following}".encode()))
    assert path.read_bytes() != before
    run = next(each for each in RUNS if each.name == name)
    study = "one" if run in ONE.runs() else "two"
    with Store(path) as store:
        ask, ask_all = (
            (store.records, store.all_records) if table == "records" else (store.failures, store.all_failures)
        )
        for question in (lambda: ask([run]), lambda: ask(RUNS), ask, lambda: list(ask_all(study))):
            with pytest.raises(ValueError, match=f"damaged: the row of '{other}'"):
                question()
        if table == "records":
            for names in (None, [name]):
                with pytest.raises(ValueError, match="damaged"):
                    store.done(names)
    assert repaired(path) == repaired(changed_copy(intact, tmp_path, ()))


@pytest.mark.parametrize("column", ["name", "plan", "command", "begun", "ended", "digest"])
def test_a_damaged_study_is_refused_and_set_aside(intact, tmp_path, column):
    path = changed_copy(intact, tmp_path, ())
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE studies SET {column} = 'x' || {column} WHERE name = 'two'")
    connection.commit()
    connection.close()
    with Store(path) as store:
        with pytest.raises(ValueError, match="the study 'x?two' is damaged; start it again"):
            store.studies()
        assert len(list(store.all_records("one"))) == 4
        run_study(ONE, store, Pretending())  # of the other study
        assert store.studies() == ["one"]
        assert store._rows("SELECT DISTINCT origin FROM damaged") == [("studies",), ("members",)]
    assert repaired(path) == repaired(changed_copy(intact, tmp_path, ()))
