import json

import pytest

from tests.cli.test_schedules import bitcycle

OWN = """
import torch
from torch import nn

def make():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), torch.zeros(3, 4)

def wrong():
    return nn.Linear(2, 2)
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
    done = bitcycle("cost", "mine:wrong")
    assert done.returncode == 2
    assert "must return a model and example inputs, not Linear" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["resnet-20"], "did you mean 'cifar-resnet-20'"),
        (["nowhere:make"], "cannot load 'nowhere:make'"),
        (["cifar-resnet-8", "--schedules", "ten"], "--schedules is 'all'"),
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
