"""The paper's settings start on official data."""

import os
from pathlib import Path

import pytest

from bitcycle.lab.built_in_tasks import BUILT_IN, preset_named
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train
from bitcycle.lab.tasks import TASKS, task_named
from tests.support.command import bitcycle

pytestmark = pytest.mark.slow

DATA = os.environ.get("BITCYCLE_DATA")
official = pytest.mark.skipif(not DATA, reason="BITCYCLE_DATA names no folder with official data")
FOLDERS = {"image": "cifar10", "detection": "voc2007_small", "graph": "planetoid/cora", "language": "ptb"}


def test_every_task_has_the_papers_settings():
    assert all("paper" in BUILT_IN[name].presets for name in TASKS)
    for name, built_in in BUILT_IN.items():
        for preset in built_in.presets.values():
            assert bool(preset.steps) != bool(preset.epochs)
            assert not preset.model or preset.model in task_named(name).models
            chosen = task_named(name).chosen_options(RunConfig(name, "full", 1, options=preset.options))
            assert {key: str(chosen[key]) for key in preset.options} == preset.options
    with pytest.raises(ValueError, match="has no preset 'papper'; did you mean 'paper'"):
        preset_named("image", "papper")


@official
@pytest.mark.parametrize("name", FOLDERS)
def test_the_papers_settings_start(name):
    preset = preset_named(name, "paper")
    small = {"image": 8, "detection": 2, "language": 4}.get(name, 0)
    folder = str(Path(DATA) / FOLDERS[name])
    bits = f"{preset.bits[0]}-{preset.bits[1]}"
    run = RunConfig(name, f"CR:{bits}", 2, model=preset.model, data=folder, batch_size=small, options=preset.options)
    training = task_named(name).prepare(run)
    assert training.steps_per_epoch >= 1
    training.loss(0).backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in training.model.parameters())


@official
def test_official_graphs_learn():
    """A GCN on Cora reaches 80 % in full precision, and 8 bits are within two points of it."""
    folder = str(Path(DATA) / "planetoid/cora")
    accuracies = {}
    for schedule, backward in (("full", None), ("static:8", 8)):
        results = [train(RunConfig("graph", schedule, 100, seed, backward, data=folder))[0].test for seed in range(2)]
        accuracies[schedule] = sum(results) / len(results)
    assert accuracies["full"] >= 0.8
    assert abs(accuracies["full"] - accuracies["static:8"]) <= 0.02


@official
def test_a_preset_by_the_command_line():
    done = bitcycle("train", "graph", "--preset", "paper", "--data", str(Path(DATA) / "planetoid/cora"), "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert "CR:3-8:cycles=8" in done.stdout
