"""``python -m benchmarks.speed`` on the smallest settings: its structure, never its times."""

import json
import sys

import pytest

from benchmarks.speed.models import MODELS
from benchmarks.speed.variants import FULL_PRECISION, HALF_PRECISION, OWN, PEERS
from tests.support.command import bitcycle

pytestmark = pytest.mark.slow

QUICK = ("--quick", "--rounds", "1", "--threads", "1")


def test_everything_of_one_model(tmp_path):
    file = tmp_path / "bench.json"
    done = bitcycle(*QUICK, "--models", "resnet-8", "--markdown", "--json", str(file), module="benchmarks.speed")
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert f"written: {file}" in done.stderr
    variants = [FULL_PRECISION, HALF_PRECISION, *OWN]
    assert [row["variant"] for row in found["steps"]] == variants
    assert [row["variant"] for row in found["memory"]] == variants
    assert found["steps"][0]["ratio"] == {"median": 1, "lower": 1, "upper": 1}
    assert all(row["seconds"]["median"] > 0 for row in [*found["steps"], *found["overhead"]])
    if sys.platform.startswith("linux"):
        assert all(row["bytes"] >= 0 for row in found["memory"])
    assert {row["operation"] for row in found["kernels"]} >= {"copy", "decode", "nearest, per row"}
    assert [row["what"] for row in found["overhead"]] == [
        "set_bits, 20 sites",
        "scheduler step, 20 sites, new bits",
        "scheduler step, 20 sites, same bits",
        "summary with inputs, 20 sites",
        "meter, ResNet-20",
        "start of Python",
        "import bitcycle",
        "bitcycle --help",
    ]
    assert {"cpu", "vnni", "cores", "torch", "kernels", "auto"} <= found["machine"].keys()
    assert found["settings"]["rounds"] == 1
    for text in ("Small versions", "ResNet-8", "simulated, paper", "1 thread", "peak memory", "Kernels", "Overhead"):
        assert text in done.stdout
    lines = done.stdout.splitlines()
    head = next(line for line in lines if line.startswith("| model |"))
    assert lines[lines.index(head) + 1] == "|" + "---|" * (len(variants) + 1)
    assert lines[lines.index(head) + 2].startswith("| ResNet-8 |")


def test_all_models_and_other_libraries():
    done = bitcycle(
        *QUICK, "--part", "steps", "--forward", "4", "--backward", "6", "--json", "-", module="benchmarks.speed"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(dict.fromkeys(row["model"] for row in found["steps"])) == list(MODELS)
    assert (found["settings"]["forward"], found["settings"]["backward"]) == (4, 6)
    assert found["memory"] == found["kernels"] == found["overhead"] == []
    variants = {row["variant"] for row in found["steps"] if row["model"] == "transformer-256"}
    assert variants == {FULL_PRECISION, HALF_PRECISION, *OWN, *PEERS}
    for row in found["steps"]:
        assert (row["seconds"] is None) == (row["ratio"] is None) == bool(row["note"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--models", "lstn"], "unknown model 'lstn'; did you mean 'lstm'?"),
        (["--forward", "17"], "'--forward': Input should be less than or equal to 16"),
        (["--threads", "-1"], "'--threads': Input should be greater than or equal to 1"),
        (["--part", "speed"], "'speed' is not one of"),
        (["--json", "-", "--markdown"], "--json - and --markdown both print to stdout: give --json a file"),
        (["--json", "nowhere/bench.json"], "there is no folder nowhere"),
    ],
)
def test_errors_are_one_line(arguments, told):
    done = bitcycle(*arguments, module="benchmarks.speed")
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
