import json
import signal
import subprocess
import sys

import pytest

from tests.support.command import bitcycle

OWN = """
import torch
from torch import nn

def make():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), torch.zeros(3, 4)

def wrong():
    return nn.Linear(2, 2)

def no_model():
    return "model", torch.zeros(3, 4)

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()

def unfit():
    return nn.Linear(2, 2), torch.zeros(3, 4)

def fails():
    raise RuntimeError("no\\nluck")

number = 7
"""


def test_a_built_in_model():
    done = bitcycle("cost", "cifar-resnet-20", "--schedule", "CR", "--bits", "3", "8")
    assert done.returncode == 0, done.stderr
    assert "40,813,184 MACs" in done.stdout
    assert "36.7 %" in done.stdout
    assert "ESTIMATE" in done.stdout


def test_all_ten_as_json():
    arguments = ["--schedules", "all", "--policy", "cifar-resnet", "--json", "--convention", "paper"]
    done = bitcycle("cost", "cifar-resnet-8", *arguments)
    content = json.loads(done.stdout)
    assert len(content["schedules"]) == 10
    assert content["macs"] == 12_501_632
    assert [row["name"] for row in content["rows"] if not row["quantized"]] == ["fc"]
    savings = {total["schedule"]: total["saving"] for total in content["schedules"]}
    assert savings["CR:3-8:cycles=8"] == pytest.approx(0.367, abs=0.001)


def test_the_authors_figure_for_the_graph_network():
    done = bitcycle("cost", "gcn-arxiv", "--schedule", "static:8", "--steps", "500", "--convention", "authors")
    assert "5,592." in done.stdout


def test_a_model_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    done = bitcycle("cost", "mine:make", "--json")
    assert json.loads(done.stdout)["macs"] == 3 * (16 + 8)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine:wrong", "mine:wrong must return a model and example inputs, got Linear"),
        ("mine:no_model", "mine:no_model must return a model and example inputs, got str, Tensor"),
        ("mine:Net", "mine:Net must be callable without arguments: missing a required argument: 'width'"),
        ("mine:unfit", "the model of mine:unfit failed on its example inputs: RuntimeError: mat1 and mat2 shapes"),
        ("mine:fails", "mine:fails raised RuntimeError: no luck"),
        ("mine:number", "mine:number must be a function or a task, got int"),
        ("mine:nothing", "mine.py has no nothing; known names: torch, nn, make"),
        ("broken:make", "broken.py line 1: ZeroDivisionError: division by zero, in '1 / 0'"),
        ("nowhere:make", "there is no module nowhere"),
    ],
)
def test_a_callable_that_cannot_be_used(tmp_path, monkeypatch, name, message):
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    done = bitcycle("cost", name)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["resnet-20"], "did you mean 'cifar-resnet-20'"),
        (["cifar-resnet-8", "--schedules", "eleven"], "--schedules must be 'ten', got 'eleven'"),
        (["cifar-resnet-8", "--policy", "x"], "unknown policy"),
        (["cifar-resnet-8", "--hardware", "abacus"], "unknown device 'abacus'"),
        (["cifar-resnet-8", "--aggregation", "half"], "'full' or 'quantized'"),
        (["cifar-resnet-8", "--convention", "exactly"], "did you mean 'exact'"),
    ],
)
def test_errors_are_one_line(arguments, told):
    done = bitcycle("cost", *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_says_so(tmp_path, number):
    code = "import time\n\ndef make():\n    print('waiting', flush=True)\n    time.sleep(300)\n"
    (tmp_path / "waits.py").write_text(code)
    command = [sys.executable, "-m", "bitcycle", "cost", "waits:make"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # tests in the background would ignore it
    ) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        _, told = process.communicate()
    assert (process.returncode, told) == (130, "bitcycle: stopped\n")
