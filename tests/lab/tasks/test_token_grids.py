"""The tasks over tokens have one grid per token, and the paper's grid per tensor as an option."""

import pytest

from bitcycle.conversion.convert import quantize
from bitcycle.conversion.sites import named_sites
from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.tasks import task_named


@pytest.mark.parametrize("task", ["language", "entailment"])
@pytest.mark.parametrize(("options", "granularity"), [({}, "row"), ({"activations": "tensor"}, "tensor")])
def test_granularity_of_activations(task, options, granularity):
    training = task_named(task).prepare(RunConfig(task, "static:8", 1, options=options))
    quantize(training.model, training.recipe, policy=training.policy)
    assert {site.recipe.activations for site in named_sites(training.model).values()} == {granularity}


def test_presets_of_the_paper_have_its_granularity():
    for task in ("language", "entailment"):
        assert all(preset.options["activations"] == "tensor" for preset in BUILT_IN[task].presets.values())


def test_another_granularity_is_refused():
    with pytest.raises(ValueError, match="activations must be 'auto' or 'tensor', got 'channel'"):
        task_named("language").prepare(RunConfig("language", "static:8", 1, options={"activations": "channel"}))
