"""A run that is loaded again is the model that was tested."""

import pytest
import torch

from bitcycle.conversion.sites import sites
from bitcycle.lab.data.splits import Split
from bitcycle.lab.runs.deployment import load_trained
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import train


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weights": "static:2", "activations": "static:8"},
        {"evaluate_at": "current"},
        {"evaluate_at": "current", "strength": "0.5", "activations": "static:3"},
    ],
    ids=str,
)
def test_a_loaded_run_is_what_was_tested(tmp_path, settings):
    run = RunConfig("graph", "linear-fall:1-8", 12, test_weights="last", **settings)
    result, _ = train(run, tmp_path)
    loaded, training = load_trained(tmp_path)
    assert loaded == run
    with torch.no_grad():
        assert training.evaluate(Split.TEST) == result.test
        losses = training.example_losses(Split.TEST)
    assert torch.equal(losses.float(), torch.from_numpy(result.example_losses))


def test_a_run_at_its_current_bits_is_validated_at_those_of_the_step(monkeypatch):
    """The bits of the step that has just been trained, not those of the next one."""
    seen = []
    from bitcycle.lab.tasks.graph import GraphTraining

    def evaluate(training, split, original=GraphTraining.evaluate):
        seen.append(next(iter(sites(training.model).values())).weight_bits)
        return original(training, split)

    monkeypatch.setattr(GraphTraining, "evaluate", evaluate)
    monkeypatch.setattr(GraphTraining, "evaluation_interval", lambda *_: 3)
    result, _ = train(RunConfig("graph", "join(static:2, 0.5, static:8)", 6, evaluate_at="current"))
    assert seen[:2] == [point["bits"] for point in result.curve] == [2, 8]
