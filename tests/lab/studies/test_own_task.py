"""Studies of a user's own task: from the command line, from Python, on Ray; killed, resumed, moved and changed."""

import csv
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import bitcycle as bc
from bitcycle.cli.app import application
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.store import Store
from bitcycle.tasks import task_named
from tests.lab.studies.own_task_files import edit, write
from tests.support.studies import InThisProcess, results

SCHEDULES = ("CR", "static q_max")
PLAN = ("--schedules", "CR", "--schedules", "static q_max", "--seeds", "2")


def command(reference, store):
    return ["study", reference, *PLAN, "--workers", "2", "--store", str(store)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The results of an undisturbed study from Python, and the analysis it returned."""
    folder = tmp_path_factory.mktemp("own")
    told = bc.study(write(folder), SCHEDULES, seeds=2, store=folder / "s.sqlite", workers=2, progress=False)
    return told, results(folder / "s.sqlite")


@pytest.mark.slow
def test_the_analysis_is_a_table(undisturbed, tmp_path):
    told, _ = undisturbed
    assert (told.name, told.planned, told.done, told.failures) == ("Points", 4, 4, [])
    assert [(row.setting, row.schedule, row.seeds) for row in told.rows] == [
        ("CR", "CR:3-8:cycles=8", 2),
        ("static 8", "static:8", 2),
    ]
    assert told.rows[0].cost < 1 == told.rows[1].cost
    assert told.rows[0].mean > 0.6
    assert "40 steps: accuracy, higher is better\nsetting " in str(told)
    assert told.as_dicts()[1]["outcome"] == ""
    assert told._repr_html_().startswith("<pre>")
    assert "Points" in told.report(tmp_path / "report").read_text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_gets_the_source(undisturbed, tmp_path, monkeypatch):
    """The files are gone before the runs begin: what the nodes train is the text that was read."""
    ray = pytest.importorskip("ray")
    _, expected = undisturbed
    reference = write(tmp_path / "files")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        read = plan_of({"task": reference, "schedules": list(SCHEDULES), "seeds": 2}, "ray")
        for name in ("points_task.py", "layers.py"):
            (tmp_path / "files" / name).unlink()
        from bitcycle.lab.studies.driver import run_study
        from bitcycle.lab.studies.engines.cluster import RayEngine

        with Store(tmp_path / "s.sqlite") as store:
            run_study(read, store, RayEngine())
    finally:
        ray.shutdown()
    assert results(tmp_path / "s.sqlite") == expected


def test_changes_are_noticed_and_another_place_is_not(tmp_path):
    reference, store = write(tmp_path / "files"), tmp_path / "s.sqlite"

    def names(reference):
        return [run.name for run in plan_of({"task": reference, "seeds": 1, "schedules": "CR"}, "").runs()]

    seen = {*names(reference)}
    moved = write(tmp_path / "elsewhere")
    assert names(moved) == list(seen)
    shutil.copy(tmp_path / "files" / "points_task.py", tmp_path / "files" / "renamed.py")
    assert names(str(tmp_path / "files" / "renamed.py")) == list(seen)  # the only task in the file
    (tmp_path / "files" / "unrelated.py").write_text("x = 1")
    assert names(reference) == list(seen)
    for path, old, new in (
        ("points_task.py", "learning = 0.05", "learning = 50.0"),
        ("layers.py", "Dropout(0.2)", "Dropout(0.3)"),
        ("points.txt", "0.0 ", "0.1 "),
    ):
        edit(tmp_path / "files" / path, old, new)
        assert not seen & {*names(reference)}, path
        seen |= {*names(reference)}
    assert not store.exists()


def test_an_edited_task_runs_again_and_its_earlier_results_stay(tmp_path, monkeypatch):
    """The complaint: another learning rate gave the old results as '10 of 10 runs done'."""
    monkeypatch.setattr("bitcycle.lab.studies.from_python.engine_of", lambda *arguments: InThisProcess())
    reference, store = write(tmp_path), tmp_path / "s.sqlite"

    def run():
        return bc.study(reference, "CR", seeds=1, steps=8, store=store, progress=False).rows[0].mean

    before = run()
    edit(tmp_path / "points_task.py", "learning = 0.05", "learning = 0.0")
    frozen = run()
    edit(tmp_path / "points_task.py", "learning = 0.0", "learning = 0.05")
    assert run() == before != frozen
    with Store(store) as opened:
        assert [len({record.run.source for record in opened.records()}), len(opened.records())] == [2, 2]
    assert "source" in cli("results", "--store", str(store)).splitlines()[0]


@pytest.mark.slow
def test_reports_results_and_exports_need_no_code(undisturbed, tmp_path):
    told, _ = undisturbed
    store = tmp_path / "s.sqlite"
    shutil.copy(told.store, store)
    script = (
        "import sys\nfrom bitcycle.cli import main\n"
        "try: main()\nfinally: assert 'torch' not in sys.modules and 'points_task' not in sys.modules"
    )
    for arguments in (
        ["report", "points_task.py:Points"],
        ["results", "Points"],
        ["results", "--export", str(tmp_path / "r.csv")],
    ):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments, "--store", str(store)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "r.csv").read_text().splitlines()))
    assert {row["task"] for row in rows} == {"Points"}
    assert len(rows[0]["source"]) == len(rows[0]["fingerprint"]) == 16


def test_a_stored_plan_states_its_source_and_its_data(tmp_path):
    reference = write(tmp_path)
    plan = plan_of({"task": reference}, "p")
    values = {"task": reference} | {name: plan.parts[0].fields[name] for name in ("source", "fingerprint")}
    assert plan_of(values, "p") == plan
    edit(tmp_path / "points.txt", "0.0 ", "0.1 ")
    with pytest.raises(ValueError, match="the data is not what the plan was made for: fingerprint is '"):
        plan_of(values, "p")


def cli(*arguments):
    """Run a command in this process and return what it prints."""
    done = CliRunner().invoke(application(), arguments)
    assert done.exit_code == 0, (arguments, done.output, done.exception)
    return done.stdout


def test_every_command_takes_it(tmp_path):
    reference, store = write(tmp_path), str(tmp_path / "s.sqlite")
    train = ("train", reference, "--steps", "6", "--out", str(tmp_path / "out"))
    assert cli(*train).startswith("Points CR:3-8:cycles=8 seed 0: test accuracy") == cli(*train).startswith("Points CR")
    assert "MACs in a forward pass" in cli("cost", reference)
    assert "Points" in cli("range-test", reference, "--iterations", "10", "--longest", "10", "--seeds", "1")
    assert "39 runs, 39 to do" in cli("study", reference, "--dry-run", "--store", store)
    assert "8     " in cli("deploy-check", str(tmp_path / "out"), "--task", reference)
    assert "written: " in cli("export", str(tmp_path / "out"), "--task", reference, "--weights", str(tmp_path / "w.pt"))
    deficit = ("deficit", reference, "--lengths", "0,1", "--window", "0", "--seeds", "1", "--dry-run", "--store", store)
    assert "4 runs, 4 to do" in cli(*deficit)
    edit(tmp_path / "points_task.py", "learning = 0.05", "learning = 0.5")
    with pytest.raises(ValueError, match="belongs to another run .source '"):
        application()(train, standalone_mode=False)


STUDY = "print(bc.study(Points(), ['static:4'], seeds=1, steps=4, workers=1, store='s.sqlite'))"


@pytest.mark.slow
def test_a_script_is_not_executed_by_workers(tmp_path):
    """They execute the class, so that a script needs no guard for them."""
    write(tmp_path)
    (tmp_path / "script.py").write_text(f"import bitcycle as bc\nfrom points_task import Points\n\n{STUDY}\n")
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "static 4" in done.stdout
    assert "   1/1  Points static:4 seed 0:" in done.stderr


def test_a_script_that_defines_the_task_needs_a_guard(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    path = tmp_path / "points_task.py"
    task = path.read_text()
    path.write_text(f"{task}\n\nimport bitcycle as bc\n{STUDY}\n")
    with pytest.raises(ValueError, match=r"points_task.py line \d+: UserCodeError: bc.study runs whenever"):
        task_named("points_task.py:Points")
    path.write_text(f"{task}\n\nimport bitcycle as bc\nif __name__ == '__main__':\n    {STUDY}\n")
    assert task_named("points_task.py:Points").steps == 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"schedules": [bc.schedule(lambda step, total: 4, name="four")]},
            "is a function, which the processes that train",
        ),
        ({"schedules": ["static:4"], "strength": [lambda step, total: 0.5]}, "a function needs a name"),
        ({"schedules": 5}, "a schedule must be a string, got 5"),
        ({"grid": "mxx"}, "mxx"),
        ({"data": "/no/where"}, "/no/where: there is no such file or folder"),
        ({"engine": "slurm"}, "the engine must be 'local' or 'ray', got 'slurm'"),
        ({"seeds": 1.5}, r"seeds must be an integer of 1 or more, got 1\.5"),
    ],
)
def test_what_a_study_cannot_run_is_refused_before_anything_is_written(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        bc.study("graph", **arguments, store=tmp_path / "s.sqlite")
    assert not list(tmp_path.iterdir())
