"""Bits of a store change: an answer is right or refused in one line, and a study that is started again repairs it.

The store has all kinds of pages: inner nodes, leaves, overflow pages and free pages.
"""

import random
import sqlite3
from dataclasses import replace

import pytest

from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.driver import run_study
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.store import Store

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
    "results of some runs": lambda store: store.records(RUNS),
    "result of one run": lambda store: store.records(RUNS[:1]),
    "failures": lambda store: store.failures(),
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
                curve = [{"step": float(step), "loss": 1 / (step + 1)} for step in range(3 + 100 * run.seed)]
                yield RunResult(run, "accuracy", True, 0.5 + run.seed / 7, 0.4, 3, 10**20, 3.5, {"mAP": 0.1}, curve)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A store in which a result and a failure are missing."""
    path = tmp_path_factory.mktemp("intact") / "s.sqlite"
    with Store(path) as store:
        for plan in (TWO, ONE):
            run_study(plan, store, Pretending())
        with store._transaction() as connection:
            connection.execute("DELETE FROM runs WHERE name IN (?, ?)", (RUNS[-1].name, RUNS[2].name))
        other = RunConfig("image", "full", 8)
        store.fail(other, "x" * 50_000)
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


@pytest.mark.parametrize("column", ["plan", "command", "begun", "ended", "members", "digest"])
def test_a_damaged_study_is_refused_and_deleted(intact, tmp_path, column):
    path = changed_copy(intact, tmp_path, ())
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE studies SET {column} = 'x' || {column} WHERE name = 'two'")
    connection.commit()
    connection.close()
    with Store(path) as store:
        with pytest.raises(ValueError, match="the row of 'two' does not match its digest"):
            store.studies()
        with pytest.raises(ValueError, match="the study 'two' is damaged; start it again"):
            store.study("two")
        assert len(store.records(store.study("one").runs)) == 4
        run_study(ONE, store, Pretending())  # of the other study
        assert store.studies() == ["one"]
    assert repaired(path) == repaired(changed_copy(intact, tmp_path, ()))
