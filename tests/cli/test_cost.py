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


@pytest.mark.slow
def test_the_authors_figure_for_the_graph_network():
    done = bitcycle("cost", "gcn-arxiv", "--schedule", "static:8", "--steps", "500", "--convention", "authors")
    assert "5,592." in done.stdout


def test_a_model_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    done = bitcycle("cost", "mine:make", "--json")
    assert json.loads(done.stdout)["macs"] == 3 * (16 + 8)


@pytest.mark.slow
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
        _, message = process.communicate()
    assert (process.returncode, message) == (130, "bitcycle: stopped\n")
