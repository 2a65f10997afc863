import json
import subprocess
import sys

import pytest

from bitcycle.schedules import schedule
from tests.support.command import bitcycle


def test_advice_reads_well():
    done = bitcycle("advise", "--goal", "quality", "--domain", "graph", "--steps", "500")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("use ")  # which schedule depends on the evidence of the day: tests/lab/advice
    for part in (
        "why\n",
        "paper: the small group",
        "cheaper: ",
        "more precision: ",
        "total_steps=500, backward_bits=8",
    ):
        assert part in done.stdout
    assert max(len(line) for line in done.stdout.partition("\ncode\n")[0].splitlines()) <= 100


def test_a_budget_in_per_cent_as_json():
    done = bitcycle("advise", "--save", "40", "--bits", "3", "8", "--json")
    advice = json.loads(done.stdout)
    assert 0.40 <= advice["saving"] <= 0.41
    assert advice["cheaper"]["saving"] > advice["saving"] > advice["better"]["saving"]


def test_fine_tuning_and_q_max():
    advice = json.loads(bitcycle("advise", "--fine-tuning", "--domain", "entailment", "--q-max", "6", "--json").stdout)
    assert schedule(advice["schedule"]).limits(500)[1] == 6
    assert advice["q_max"] == 6


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--goal", "speed"], "unknown goal 'speed'"),
        (["--domain", "audio"], "unknown domain 'audio'"),
        (["--save", "95"], "the most is 81 %, by RTH:2-8"),
        (["--save", "0"], "--save must be a percentage above 0 and below 100, got 0"),
        (["--bits", "8", "8"], "leaves nothing to schedule"),
        (["--bits", "3", "8", "--q-max", "8"], "q_max is given twice"),
    ],
)
def test_errors_are_one_line(arguments, told):
    done = bitcycle("advise", *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["advise", "--help"], ["advise"], ["advise", "--save", "30"]])
def test_advice_needs_no_torch(arguments):
    code = (
        f"import sys; sys.argv = ['bitcycle', *{arguments!r}]\n"
        "from bitcycle.cli import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code\n"
        "assert 'torch' not in sys.modules and 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_saving_of_a_model_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom torch import nn\n\n\ndef make():\n    return nn.Linear(8, 4), torch.zeros(2, 8)\n"
    )
    monkeypatch.chdir(tmp_path)
    done = bitcycle("advise", "--model", "mine:make")
    assert done.returncode == 0, done.stderr
    assert "100 % of the multiply-accumulates of your model" in " ".join(done.stdout.split())
    assert "total_steps=total_steps" in done.stdout
    done = bitcycle("advise", "--model", "mine:nothing")
    assert done.returncode == 2
    assert "mine.py has no nothing" in done.stderr
