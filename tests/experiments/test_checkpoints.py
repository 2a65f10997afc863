"""Checkpoints of version 0.1 go on, and those of unknown versions are refused."""

import pytest
import torch

from bitcycle.experiments.checkpoints import FORMAT, NAME, load_checkpoint
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.training import train
from tests.experiments.test_training import KilledError, killed_after

RUN = RunConfig("graph", "CR:3-8:cycles=2", 40, test_weights="last", diagnostics=True, learning_rate="restart@10")
OLD_NAMES = {"test_weights": "keep", "diagnostics": "measured", "learning_rate": "rate"}


def as_version_1(path):
    """Rewrite a checkpoint in the layout of version 0.1."""
    content = torch.load(path, weights_only=True)
    assert content["format"] == FORMAT == 2
    content["format"] = 1
    content["run"] = {OLD_NAMES.get(name, name): value for name, value in content["run"].items()}
    content["state"]["measurements"] = content["state"].pop("diagnostics")
    torch.save(content, path)


def test_a_run_resumes_from_a_checkpoint_of_version_1(tmp_path):
    expected, expected_model = train(RUN)
    with pytest.raises(KilledError):
        train(RUN, tmp_path, killed_after(22), checkpoint_every=5)
    as_version_1(tmp_path / NAME)
    steps = []
    result, model = train(RUN, tmp_path, lambda progress: steps.append(progress.step), checkpoint_every=5)
    assert steps[0] == 21  # it did not start from scratch
    assert (result.test, result.bitops, result.curve) == (expected.test, expected.bitops, expected.curve)
    for key, value in model.state_dict().items():
        assert torch.equal(value, expected_model.state_dict()[key]), key
    assert torch.load(tmp_path / NAME, weights_only=True)["format"] == 2


def test_another_run_does_not_take_over_a_checkpoint_of_version_1(tmp_path):
    with pytest.raises(KilledError):
        train(RUN, tmp_path, killed_after(6), checkpoint_every=5)
    as_version_1(tmp_path / NAME)
    other = RunConfig("graph", "CR:3-8:cycles=2", 40, test_weights="best", diagnostics=True, learning_rate="restart@10")
    with pytest.raises(ValueError, match="belongs to another run .test_weights 'last' instead of 'best'.: choose"):
        train(other, tmp_path)


@pytest.mark.parametrize("content", [{"format": 3, "run": {}, "state": {}}, {"run": {}}, [1]])
def test_unknown_formats_are_refused(content, tmp_path):
    torch.save(content, tmp_path / NAME)
    with pytest.raises(ValueError, match="was written by another version of bitcycle: move it away"):
        load_checkpoint(tmp_path, RUN.as_dict())
