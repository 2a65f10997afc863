"""Checkpoints: damage is found out, and those of other versions are refused."""

import errno
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitcycle.lab.runs.checkpoints import (
    FORMAT,
    NAME,
    PREVIOUS,
    UNFINISHED,
    CheckpointError,
    load_checkpoint,
    save_checkpoint,
)
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from tests.lab.runs.test_training import KilledError, killed_after

RUN = RunConfig("graph", "CR:3-8:cycles=2", 40, test_weights="last", diagnostics=True, learning_rate="restart@10")


def rewritten(folder, change):
    """Change the state in a checkpoint."""
    content = torch.load(folder / NAME, weights_only=True)
    change(content["state"])
    save_checkpoint(folder, content["run"], content["state"])


def test_another_run_does_not_take_over_a_checkpoint(tmp_path):
    save_checkpoint(tmp_path, RUN.as_dict(), {})
    with pytest.raises(ValueError, match="belongs to another run .test_weights 'last' instead of 'best'.: choose"):
        train(replace(RUN, test_weights="best"), tmp_path)


@pytest.mark.parametrize("content", [{"format": FORMAT - 1, "run": {}, "state": {}}, {"run": {}}, [1]])
def test_unknown_formats_are_refused(content, tmp_path):
    torch.save(content, tmp_path / NAME)
    with pytest.raises(ValueError, match="was written by another version of bitcycle: move it away"):
        load_checkpoint(tmp_path, RUN.as_dict())


SIMPLE = {"task": "image"}


@pytest.fixture(scope="module")
def written():
    """The bytes of a checkpoint."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(Path(folder), SIMPLE, {"x": torch.arange(3000.0), "y": [1, 2.5, "z"]})
        return (Path(folder) / NAME).read_bytes()


@given(data=st.data())
def test_every_changed_bit_is_found_out(written, tmp_path_factory, data):
    place = data.draw(st.integers(0, 8 * len(written) - 1))
    changed = bytearray(written)
    changed[place // 8] ^= 1 << place % 8
    folder = tmp_path_factory.mktemp("checkpoint")
    (folder / NAME).write_bytes(changed)
    assert load_checkpoint(folder, SIMPLE) is None
    assert (folder / f"{NAME}.damaged").read_bytes() == changed
    assert not (folder / NAME).exists()


@given(share=st.floats(0, 1, exclude_max=True))
def test_every_cut_is_found_out(written, tmp_path_factory, share):
    folder = tmp_path_factory.mktemp("checkpoint")
    (folder / NAME).write_bytes(written[: int(share * len(written))])
    assert load_checkpoint(folder, SIMPLE) is None


@pytest.mark.slow
@pytest.mark.parametrize(("damaged", "first_step"), [((NAME,), 16), ((PREVIOUS,), 21), ((NAME, PREVIOUS), 1)])
def test_a_damaged_checkpoint_is_set_aside_for_the_previous_one(tmp_path, caplog, damaged, first_step):
    run, chance = RunConfig("graph", "CR:3-8:cycles=2", 40), random.Random(0)
    expected, _ = train(run)
    with pytest.raises(KilledError):
        train(run, tmp_path, killed_after(22), checkpoint_every=5)
    for name in damaged:
        content = bytearray((tmp_path / name).read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        (tmp_path / name).write_bytes(content)
    steps = []
    result, _ = train(run, tmp_path, lambda progress: steps.append(progress.step), checkpoint_every=5)
    assert steps[0] == first_step
    assert (result.test, result.bitops, result.curve) == (expected.test, expected.bitops, expected.curve)
    read = () if damaged == (PREVIOUS,) else damaged
    lines = [record.getMessage() for record in caplog.records]
    assert [f"{name} is damaged and set aside" in line for name, line in zip(read, lines, strict=True)] == [True] * len(
        read
    )


def test_what_a_kill_leaves_is_removed(tmp_path):
    (tmp_path / UNFINISHED).write_bytes(b"half")
    (tmp_path / f"{NAME}.mine").touch()
    assert load_checkpoint(tmp_path, SIMPLE) is None
    assert [path.name for path in tmp_path.iterdir()] == [f"{NAME}.mine"]


def test_a_kill_between_the_two_renames_leaves_the_previous_one(tmp_path):
    save_checkpoint(tmp_path, SIMPLE, {"step": 1})
    (tmp_path / NAME).replace(tmp_path / PREVIOUS)
    assert load_checkpoint(tmp_path, SIMPLE) == {"step": 1}
    save_checkpoint(tmp_path, SIMPLE, {"step": 2})
    save_checkpoint(tmp_path, SIMPLE, {"step": 3})
    assert load_checkpoint(tmp_path, SIMPLE) == {"step": 3}
    (tmp_path / NAME).write_bytes(b"nonsense")
    assert load_checkpoint(tmp_path, SIMPLE) == {"step": 2}


def test_an_error_of_the_disk_keeps_what_was_there(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, SIMPLE, {"step": 1})

    def failing(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(CheckpointError, match="Input/output error: .*checkpoint.pt"):
        save_checkpoint(tmp_path, SIMPLE, {"step": 2})
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert load_checkpoint(tmp_path, SIMPLE) == {"step": 1}


def test_an_error_of_the_disk_at_what_a_kill_left_is_one_of_the_disk(tmp_path, monkeypatch):
    def failing(path, missing_ok):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "unlink", failing)
    with pytest.raises(CheckpointError, match="Input/output error"):
        load_checkpoint(tmp_path, SIMPLE)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A run, its result, and the folder of one that was killed on the way."""
    run, folder = RunConfig("graph", "static:8", 10), tmp_path_factory.mktemp("killed")
    expected, _ = train(run)
    with pytest.raises(KilledError):
        train(run, folder, killed_after(6), checkpoint_every=5)
    return run, expected, folder


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("own"),
        lambda state: state["own"].pop("curve"),
        lambda state: state.update(own=[]),
        lambda state: state.pop("optimizer"),
        lambda state: state["model"].popitem(),
        lambda state: state.update(meter=None),
    ],
)
def test_odd_or_missing_entries_give_one_line(tmp_path, interrupted, change):
    run, _, folder = interrupted
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    rewritten(tmp_path, change)
    with pytest.raises(ValueError, match="does not fit this run: choose another folder") as message:
        train(run, tmp_path)
    assert "\n" not in str(message.value)


def test_a_checkpoint_sets_nothing_but_its_own_entries(tmp_path, interrupted):
    run, expected, folder = interrupted
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    rewritten(tmp_path, lambda state: state["own"].update(task="x", parts={}, run=None, save=1))
    assert train(run, tmp_path)[0].test == expected.test


@pytest.mark.parametrize(("run", "state"), [([], {}), ({}, None)])
def test_a_file_without_run_or_state_is_refused(tmp_path, run, state):
    save_checkpoint(tmp_path, run, state)
    content = (tmp_path / NAME).read_bytes()
    with pytest.raises(ValueError, match="has no run or no state"):
        load_checkpoint(tmp_path, SIMPLE)
    assert (tmp_path / NAME).read_bytes() == content
