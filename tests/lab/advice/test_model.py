"""Advice for a model: what the schedule saves in its training, what stays in full precision, and code that runs."""

import pytest
import torch
from torch import nn

import bitcycle as bc
from bitcycle.lab.advice import RunRecord, TrainingSettings, advise


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))


def test_the_saving_is_that_of_the_model():
    kept = bc.quantize(model(), keep=("2", "4"))
    inputs = torch.randn(4, 8)
    advice = advise(steps=1000, model=kept, inputs=inputs)
    assert advice.model.saving == bc.cost(kept, inputs).saving(advice.schedule, 1000, 8)
    assert 0 < advice.model.saving < advice.saving == pytest.approx(advice.schedule.saving(1000))
    assert advice.model.quantized == pytest.approx(128 / (128 + 128 + 16))
    assert (advice.model.largest_part, advice.model.largest_share) == ("2 (Linear)", pytest.approx(128 / 272))
    assert "of the cost of your model at static 8 bits (the schedule alone:" in " ".join(str(advice).split())
    assert "the largest part in full precision is 2 (Linear) with 47.1 %" in " ".join(str(advice).split())


def test_the_saving_of_runs_with_settings_of_their_own():
    settings = TrainingSettings(6, {"activations": "static:8"}, {"grid": "mx"})
    runs = [
        RunRecord(spec, seed, 0.9 + 0.001 * seed, cost, settings)
        for spec, cost in (("static:8", 100.0), ("CR:3-8", 60.0))
        for seed in range(5)
    ]
    inputs = torch.randn(4, 8)
    advice = advise(steps=1000, records=runs, model=model(), inputs=inputs)
    converted = bc.quantize(model(), bc.Recipe(grid="mx"))
    expected = bc.cost(converted, inputs).saving("CR:3-8", 1000, 6, against="static:8", activations="static:8")
    assert advice.model.saving == expected


def test_a_float_model_counts_as_converted():
    advice = advise(model=model(), inputs=torch.randn(4, 8))
    assert (advice.model.quantized, advice.model.largest_part) == (1, None)
    assert advice.as_dict()["model"]["uncounted"] == []


@pytest.mark.parametrize(("steps", "total"), [(None, 100), (4000, 4000)])
def test_the_three_lines_run(steps, total):
    advice = advise("cost", "graph", steps)
    assert advice.saving == advise("cost", "graph", steps or 64_000).saving
    names = {"bc": bc, "model": model(), "total_steps": 100}
    exec(advice.code, names)
    precision = names["precision"]
    assert (precision.total_steps, precision.current_step, precision.backward_bits) == (total, 1, 8)
    assert precision.schedule == advice.schedule
    names["model"](torch.ones(2, 8)).sum().backward()
