"""``--json``: one valid JSON document on stdout, and everything else on stderr."""

import json
from pathlib import Path

import pytest

from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.lab.studies.plan import Plan, StudyPart
from bitcycle.lab.studies.store import Store
from tests.support.command import bitcycle


def document(done, code=0):
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with a comparison of schedules, a deficit experiment, and a study whose run failed."""
    compared, failing = (
        StudyPart("image", schedules, bits=((3, 8),), cycles=(2,), seeds=seeds, steps=4)
        for schedules, seeds in ((("CR", "static q_max"), (0, 1, 2)), (("full",), (0,)))
    )
    deficit = DeficitPart("image", (3, 8), 4, lengths=(0.0, 1.0), window=0.5, starts=(0.25,), seeds=(0,))
    path = tmp_path_factory.mktemp("json") / "s.sqlite"
    with Store(path) as store:
        for name, part in {"tiny": compared, "probe": deficit, "broken": failing}.items():
            plan = Plan(name, (part,))
            store.begin(plan.name, plan.purposes(), plan.as_toml(), "bitcycle study", plan.deficits)
            for run in plan.runs():
                if part is failing:
                    store.write(RunFailure(run, "Traceback\nValueError: no"))
                else:
                    store.write(RunResult(run, "accuracy", True, 0.5, 0.5, 4, 10**9, 1.0))
    return str(path)


@pytest.mark.slow
def test_train(tmp_path):
    done = bitcycle("train", "graph", "--steps", "4", "--json", "--out", str(tmp_path))
    result = document(done)
    assert result["run"]["task"] == "graph"
    assert result["run"]["steps"] == 4
    assert {"test", "validation", "metric", "bitops", "seconds", "curve", "versions"} <= result.keys()
    assert json.loads((tmp_path / "result.json").read_text()) == result
    assert "written: " in done.stderr


@pytest.mark.slow
def test_study_and_dry_run(tmp_path):
    words = ("study", "graph", "--steps", "4", "--seeds", "1", "--schedules", "static:8", "--store")
    path = str(tmp_path / "s.sqlite")
    planned = document(bitcycle(*words, path, "--dry-run", "--json"))
    assert [(run["schedule"], run["done"]) for run in planned["runs"]] == [("static:8", False)]
    assert not list(tmp_path.iterdir())
    done = bitcycle(*words, path, "--json", "--workers", "1")
    result = document(done)
    assert (result["study"], result["planned"], result["done"], result["failures"]) == ("graph", 1, 1, [])
    assert len(result["analyses"]) == 1
    assert "1 of 1 runs done" in done.stderr


@pytest.mark.slow
def test_a_study_with_a_failure(tmp_path):
    (tmp_path / "empty").mkdir()
    done = bitcycle(
        *("study", "image", "--data", str(tmp_path / "empty"), "--seeds", "1", "--schedules", "static:8", "--steps"),
        *("4", "--store", str(tmp_path / "s.sqlite"), "--workers", "1", "--json"),
    )
    result = document(done, code=1)
    [failure] = result["failures"]
    assert failure["run"]["schedule"] == "static:8"
    assert "the folder is empty" in failure["reason"]
    assert "--retry-failed" in done.stderr


def test_tasks():
    tasks = {task["name"]: task for task in document(bitcycle("tasks", "--json"))}
    assert {"image", "graph", "language", "detection", "entailment"} <= tasks.keys()
    assert tasks["graph"]["models"] == ["gcn", "sage", "gat"]
    assert tasks["graph"]["options"]["aggregation"]["default"] == "full"
    assert tasks["image"]["presets"]["paper"]["steps"] == 64_000
    assert "cora" in tasks["graph"]["data_sets"]


def test_an_export_does_not_replace_the_store_it_reads(tmp_path, store):
    path = tmp_path / "own.csv"
    path.write_bytes(Path(store).read_bytes())
    done = bitcycle("results", "--store", path, "--export", path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is the store itself: choose another file" in done.stderr
    assert path.read_bytes() == Path(store).read_bytes()


def test_results_of_deficits(store):
    results = document(bitcycle("results", "--store", store, "--json"))
    assert sorted(results["studies"]) == ["broken", "probe", "tiny"]
    assert len(results["runs"]) == 13
    assert [failure["run"]["task"] for failure in results["failures"]] == ["image"]
    purposes = {(cell["experiment"], cell["arm"]) for run in results["runs"] for cell in run["deficit"]}
    arms = ("held", "restarted", "longer")
    assert purposes == {(experiment, arm) for experiment in ("length", "position") for arm in arms}


def test_the_rows_of_a_deficit_study_differ(store):
    """They differ without the columns of their results, and a plain study has no columns it does not need."""
    lines = bitcycle("results", "probe", "--store", store).stdout.splitlines()
    heads = ["task", "schedule", "seed", "steps", "learning rate", "experiment", "length or start", "arm", "test"]
    assert [lines[0].find(head) for head in heads] == sorted(lines[0].find(head) for head in heads)
    assert -1 not in [lines[0].find(head) for head in heads]
    rows = [line[: lines[0].index("  test ")] for line in lines[1:-1]]
    assert len(set(rows)) == len(rows) == 7
    plain = bitcycle("results", "tiny", "--store", store).stdout.splitlines()[0]
    assert plain.split() == ["task", "schedule", "seed", "test", "effective", "MACs", "time", "run"]
