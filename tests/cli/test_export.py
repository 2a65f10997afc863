"""``bitcycle export`` and ``bitcycle deploy-check`` on a trained run."""

import json

import pytest
import torch

from tests.lab.studies.own_task_files import edit, write
from tests.support.command import bitcycle

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    done = bitcycle("train", "image", "--schedule", "CR:3-8:cycles=2", "--steps", 30, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
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


@pytest.mark.slow
def test_deploy_check(trained):
    shown = bitcycle("deploy-check", trained, "--bits", 8, "--bits", 2)
    assert "image trained on CR:3-8:cycles=2" in shown.stdout, shown.stderr
    found = json.loads(bitcycle("deploy-check", trained, "--json").stdout)
    assert list(found) == ["full", "8", "6", "4", "3", "2"]
    assert f"8     {found['8']:.4f}" in shown.stdout
    assert found["8"] == json.loads((trained / "result.json").read_text())["test"]


@pytest.mark.slow
def test_wrong_arguments_of_a_trained_run(trained, tmp_path):
    done = bitcycle("export", trained, "--onnx", tmp_path / "m.onnx", "--kernels", "fast")
    assert (done.returncode, done.stderr) == (2, "bitcycle: kernels must be 'exact' or 'integer', got 'fast'\n")
    assert "integer from 1 to 16" in bitcycle("export", trained, "--weights", tmp_path / "m.pt", "--bits", 40).stderr


@pytest.mark.slow
def test_a_run_of_an_own_task_needs_its_source(tmp_path):
    reference, out = write(tmp_path), tmp_path / "out"
    done = bitcycle("train", reference, "--steps", 4, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "0.00" not in done.stdout.split("), ")[1], "the cost of a small model"

    message = f"bitcycle: {out} holds a run of your own task Points: name its source, --task FILE.py:CLASS\n"
    assert bitcycle("deploy-check", out).stderr == message
    found = bitcycle("deploy-check", out, "--task", reference, "--json")
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["8"] == json.loads((out / "result.json").read_text())["test"]

    edit(tmp_path / "points_task.py", "learning = 0.05", "learning = 0.5")
    changed = bitcycle("deploy-check", out, "--task", reference, "--json")
    assert changed.stdout == found.stdout
    assert changed.stderr == f"the source of {reference} has changed since the training in {out}\n"
    edit(tmp_path / "layers.py", "nn.Linear(16, 2)", "nn.Linear(16, 2, bias=False)")
    wider = bitcycle("deploy-check", out, "--task", reference).stderr.splitlines()
    assert wider[1:] == [f"bitcycle: the model of the task Points has changed: it has other weights than {out}"]
    edit(tmp_path / "points_task.py", "class Points", "class Others")
    other = bitcycle("deploy-check", out, "--task", reference.replace("Points", "Others"))
    assert "holds a run of the task Points, and " in other.stderr


def test_a_built_in_task_has_no_source_to_name(trained):
    done = bitcycle("deploy-check", trained, "--task", "my_task.py:MyTask")
    assert done.stderr == f"bitcycle: {trained} holds a run of the built-in task image: leave --task out\n"
