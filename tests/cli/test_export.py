"""``bitcycle export`` and ``bitcycle deploy-check`` on a trained run."""

import json

import pytest
import torch

from tests.support.command import bitcycle

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    done = bitcycle("train", "image", "--schedule", "CR:3-8:cycles=2", "--steps", 30, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("kernels", ["exact", "integer"])
def test_onnx(trained, tmp_path, kernels):
    pytest.importorskip("onnxruntime", reason="pip install 'bitcycle[export]'")
    done = bitcycle("export", trained, "--onnx", tmp_path / "model.onnx", "--kernels", kernels)
    assert done.returncode == 0, done.stderr
    assert "on all batches of the test data:" in done.stdout
    assert done.stdout.count("of 447 predictions equal") == 2
    equal = float(done.stdout.split("model.onnx: ")[-1].split("%")[0])
    assert equal >= 99
    assert ("QLinearConv" in done.stdout) == (kernels == "integer")


def test_weights_on_their_grids(trained, tmp_path):
    done = bitcycle("export", trained, "--weights", tmp_path / "model.pt", "--bits", 3)
    assert done.returncode == 0, done.stderr
    assert "float weights: " in done.stdout
    state = torch.load(tmp_path / "model.pt", weights_only=True)
    kernels = [tensor for tensor in state.values() if tensor.dim() == 4]
    assert sum(all(len(channel.unique()) <= 8 for channel in each) for each in kernels) >= len(kernels) - 1 > 1


def test_deploy_check(trained):
    shown = bitcycle("deploy-check", trained, "--bits", 8, "--bits", 2)
    assert "image trained on CR:3-8:cycles=2" in shown.stdout, shown.stderr
    found = json.loads(bitcycle("deploy-check", trained, "--json").stdout)
    assert list(found) == ["full", "8", "6", "4", "3", "2"]
    assert f"8     {found['8']:.4f}" in shown.stdout
    assert found["8"] == json.loads((trained / "result.json").read_text())["test"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("export", "."), "nothing to write: give --onnx FILE.onnx, --weights FILE.pt, or both"),
        (("export", ".", "--weights", "m.pt"), "has no checkpoint: train with"),
        (("deploy-check", "."), "has no checkpoint: train with"),
    ],
)
def test_misuse(tmp_path, arguments, message):
    done = bitcycle(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_wrong_arguments_of_a_trained_run(trained, tmp_path):
    done = bitcycle("export", trained, "--onnx", tmp_path / "m.onnx", "--kernels", "fast")
    assert (done.returncode, done.stderr) == (2, "bitcycle: kernels must be 'exact' or 'integer', got 'fast'\n")
    assert "integer from 1 to 16" in bitcycle("export", trained, "--weights", tmp_path / "m.pt", "--bits", 40).stderr
