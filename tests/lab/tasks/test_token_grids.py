"""The tasks over tokens have one grid per token, and the paper's grid per tensor as an option."""

import pytest

from bitcycle.conversion.convert import quantize
from bitcycle.conversion.sites import named_sites
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks import task_named
from bitcycle.experiments.tasks.presets import PRESETS


@pytest.mark.parametrize("task", ["language", "entailment"])
@pytest.mark.parametrize(("options", "granularity"), [({}, "row"), ({"activations": "tensor"}, "tensor")])
def test_granularity_of_activations(task, options, granularity):
    training = task_named(task).prepare(RunConfig(task, "static:8", 1, options=options))
    quantize(training.model, training.recipe, policy=training.policy)
    assert {site.recipe.activations for site in named_sites(training.model).values()} == {granularity}


def test_presets_of_the_paper_have_its_granularity():
    for task in ("language", "entailment"):
        assert all(preset.options["activations"] == "tensor" for preset in PRESETS[task].values())


def test_another_granularity_is_refused():
    with pytest.raises(ValueError, match="activations must be 'auto' or 'tensor', got 'channel'"):
        task_named("language").prepare(RunConfig("language", "static:8", 1, options={"activations": "channel"}))
