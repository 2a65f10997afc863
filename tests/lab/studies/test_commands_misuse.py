"""What a user can get wrong on the command line of studies and trainings: one line, exit code 2, nothing recorded."""

import os
from pathlib import Path

import pytest

from tests.support.command import bitcycle


def told(*words, folder):
    done = bitcycle(*words, cwd=folder)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "graph", "--device", "foo"), "the device 'foo' cannot be used here: "),
        (("train", "graph", "--steps", "0"), "steps must be an integer of 1 or more, got 0"),
        (("train", "graph", "--cycles", "0", "--steps", "4"), "cycles"),
        (("train", "graph", "--steps", "4", "--checkpoint-every", "0"), "steps between checkpoints"),
        (("train", "graph", "--data", "corra"), "no official data set of that name; did you mean 'cora'?"),
        (("study", "graph", "--data", "/no/where"), "/no/where: there is no such file or folder"),
        (("study", "graph", "--device", "foo"), "the device 'foo' cannot be used here: "),
        (("study", "graph", "--threads", "-1"), "threads must be 0 or more, got -1"),
        (("study", "graph", "--workers", "-1"), "workers must be 0 or more, got -1"),
        (("study", "graph", "--seeds", "1000000000"), "100000"),
        (("study", "deficit.toml", "--cycles", "2"), "deficits have no cycles"),
        (("study", "flag.toml"), "autocast must be true or false, got 'yes'"),
        (("study", "pairs.toml"), "bits must have one value in a deficit, got 2"),
        (("advise", "--steps", "0"), "the number of steps"),
        (("advise", "--study", "mine"), "there is no store"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_one_line(words, message, tmp_path):
    (tmp_path / "deficit.toml").write_text('[[deficit]]\ntask = "graph"\n')
    (tmp_path / "flag.toml").write_text('task = "graph"\nautocast = "yes"\n')
    (tmp_path / "pairs.toml").write_text('[[deficit]]\ntask = "graph"\nbits = [[1, 8], [2, 8]]\n')
    code, error = told(*words, folder=tmp_path)
    assert (code, error.count("\n")) == (2, 1), error
    assert message in error
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_what_is_given_holds_for_deficits_too(tmp_path):
    (tmp_path / "plan.toml").write_text('[[deficit]]\ntask = "graph"\nsteps = 400\nlengths = [0, 1]\nwindow = 0\n')
    words = ("study", "plan.toml", "--steps", "4", "--seeds", "1", "--dry-run")
    done = bitcycle(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("4 runs")


def test_data_is_named_by_a_path_that_is_the_same_from_everywhere(tmp_path, monkeypatch):
    from bitcycle.lab.studies.plan_file import plan_of

    (tmp_path / "here" / "data").mkdir(parents=True)
    names = []
    for folder, data in ((tmp_path / "here", "data"), (tmp_path, "here/data"), (tmp_path, str(tmp_path / "here/data"))):
        monkeypatch.chdir(folder)
        names.append({run.name for run in plan_of({"task": "image", "data": data, "schedules": "CR"}, "x").runs()})
    assert names[0] == names[1] == names[2]
    monkeypatch.chdir(tmp_path)
    os.mkdir("data")
    Path("data", "another.txt").write_text("x")
    assert {run.name for run in plan_of({"task": "image", "data": "data", "schedules": "CR"}, "x").runs()} != names[0]
