"""Every example runs on its own, with small arguments, and those that save checkpoints resume bit for bit."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import bitcycle as bc

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")]


def accuracy(monkeypatch, capsys, name, *arguments):
    """Run an example in this process and return the accuracy it prints."""
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    torch.manual_seed(0)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    words = capsys.readouterr().out.split()
    return float(words[words.index("accuracy") + 1])


def test_every_example_is_short_and_tested():
    here = Path(__file__).read_text()
    for path in EXAMPLES.glob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) < 60, path.name
        assert f"python examples/{path.name}" in text, "the command beside it"
        assert f'"{path.stem}"' in here, path.name


@pytest.mark.parametrize(("name", "option"), [("timm_style_loop", "--epochs"), ("converter_loop", "--steps")])
def test_loops(monkeypatch, capsys, name, option):
    pytest.importorskip("sklearn")
    assert accuracy(monkeypatch, capsys, name, option, 1 if option == "--epochs" else 90) > 0.5


def test_graph_loop(monkeypatch, capsys):
    pytest.importorskip("torch_geometric", reason="pip install 'bitcycle[graph]'")
    assert accuracy(monkeypatch, capsys, "pyg_loop", "--steps", 25) > 0.5


def test_plain_loop_resumes(monkeypatch, capsys, tmp_path):
    pytest.importorskip("sklearn")
    whole = accuracy(monkeypatch, capsys, "plain_loop", "--epochs", 2, "--out", tmp_path / "whole")
    accuracy(monkeypatch, capsys, "plain_loop", "--epochs", 2, "--out", tmp_path / "parts", "--stop", 1)
    assert accuracy(monkeypatch, capsys, "plain_loop", "--epochs", 2, "--out", tmp_path / "parts") == whole > 0.5
    assert_equal(*(torch.load(tmp_path / name / "checkpoint.pt", weights_only=True) for name in ("whole", "parts")))


def test_accelerate_loop_resumes(monkeypatch, capsys, tmp_path):
    accelerate = pytest.importorskip("accelerate", reason="pip install 'bitcycle[trainer]'")

    def run(*arguments):
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        return accuracy(monkeypatch, capsys, "accelerate_loop", "--epochs", 2, *arguments)

    whole = run("--out", tmp_path / "whole")
    run("--out", tmp_path / "parts", "--stop", 1)
    assert run("--out", tmp_path / "parts", "--resume") == whole > 0.5
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_accelerate_loop_in_two_processes(tmp_path):
    pytest.importorskip("accelerate", reason="pip install 'bitcycle[trainer]'")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, str(EXAMPLES / "accelerate_loop.py"), "--epochs", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("accuracy") == 1, "only the first of them prints"
    assert sorted(path.name for path in tmp_path.glob("random_states_*.pkl")) == [
        "random_states_0.pkl",
        "random_states_1.pkl",
    ]


@pytest.mark.filterwarnings("ignore::lightning.fabric.utilities.warnings.PossibleUserWarning")
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # onnxscript's own
def test_lightning_digits_resumes_inside_an_epoch_and_is_exported(monkeypatch, capsys, tmp_path):
    pytest.importorskip("lightning", reason="pip install 'bitcycle[lightning]'")
    pytest.importorskip("onnxruntime", reason="pip install 'bitcycle[export]'")
    arguments = ("lightning_digits", "--epochs", 2, "--out", tmp_path)
    whole = accuracy(monkeypatch, capsys, *arguments)
    model = torch.load(tmp_path / "model.pt", weights_only=True)
    last = tmp_path / "last.ckpt"
    assert torch.load(last, weights_only=True)["global_step"] == 80, "45 steps an epoch"
    assert accuracy(monkeypatch, capsys, *arguments, "--resume", last) == whole > 0.5
    assert_equal(model, torch.load(tmp_path / "model.pt", weights_only=True))
    load_digits = pytest.importorskip("sklearn.datasets").load_digits
    x = torch.from_numpy(load_digits().images[1437:]).float().unsqueeze(1) / 16
    plain = digits_model()
    plain.load_state_dict({key.removeprefix("model."): tensor for key, tensor in model.items()})
    bc.set_bits(bc.quantize(plain, keep="7"), evaluate=8)
    agreement = bc.check_onnx(tmp_path / "model.onnx", plain, [x])
    assert agreement.integer_kernels == {"QLinearConv": 2}
    assert agreement.argmax >= 0.99


def digits_model():
    """The model of the example."""
    layers = [nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(32 * 4 * 4, 10))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # onnxscript's own
def test_trainer_minilm_and_its_export(monkeypatch, capsys, tmp_path):
    """A small model and a few pairs instead of MiniLM and SNLI."""
    pytest.importorskip("accelerate", reason="pip install 'bitcycle[trainer]'")
    pytest.importorskip("onnxruntime", reason="pip install 'bitcycle[export]'")
    from transformers import (
        AutoModelForSequenceClassification,
        BertConfig,
        BertForSequenceClassification,
        BertModel,
        BertTokenizerFast,
    )

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cats", "dogs", "sleep", "run"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "start")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(tmp_path / "start")
    for name in ("dev.txt", "test.txt"):
        (tmp_path / name).write_text("cats sleep\tdogs run\t1\ncats run\tcats run\t0\ndogs run\tdogs sleep\t2\n" * 8)
    paths = ("--data", tmp_path, "--model", tmp_path / "start", "--out", tmp_path / "out")
    assert 0 <= accuracy(monkeypatch, capsys, "trainer_minilm", *paths, "--epochs", 1) <= 1
    trained = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out" / "model")
    assert type(trained) is BertForSequenceClassification
    state = json.loads((tmp_path / "out" / "checkpoint-2" / "trainer_state.json").read_text())
    assert state["stateful_callbacks"]["bitcycle"]["scheduler"]["step"] == state["global_step"] == 2
    arguments = ["--model", tmp_path / "out" / "model", "--data", tmp_path, "--out", tmp_path / "onnx"]
    monkeypatch.setattr(sys, "argv", ["export_minilm", *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / "export_minilm.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.count("of 24 predictions equal") == 4
    assert "MatMulIntegerToFloat" in printed


def assert_equal(first, second):
    """Compare nested states bit for bit."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_equal(first[key], second[key])
    else:
        assert torch.equal(first, second) if torch.is_tensor(first) else first == second
