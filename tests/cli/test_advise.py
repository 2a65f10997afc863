import json

import pytest

from tests.support.command import bitcycle


@pytest.mark.slow
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


def test_the_saving_of_a_model_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom torch import nn\n\n\ndef make():\n    return nn.Linear(8, 4), torch.zeros(2, 8)\n"
    )
    monkeypatch.chdir(tmp_path)
    done = bitcycle("advise", "--model", "mine:make")
    assert done.returncode == 0, done.stderr
    assert "100.0 % of the multiply-accumulates of your model" in " ".join(done.stdout.split())
    assert "total_steps=total_steps" in done.stdout
