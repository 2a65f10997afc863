"""Run configurations: names, plain values, and those of version 0.1."""

import json

import pytest

from bitcycle.experiments.run_config import RunConfig, WeightChoice, upgraded

VERSION_1 = {
    "task": "graph",
    "schedule": "CR:3-8:cycles=2",
    "steps": 40,
    "seed": 1,
    "backward_bits": "max",
    "model": "",
    "data": "",
    "batch_size": 0,
    "autocast": False,
    "compiled": False,
    "keep": "last",
    "measured": True,
    "rate": "restart@10",
    "options": {"aggregation": "quantized"},
}


def test_a_run_of_version_1_is_read():
    run = RunConfig.from_dict(upgraded(VERSION_1))
    assert (run.test_weights, run.diagnostics, run.learning_rate) == (WeightChoice.LAST, True, "restart@10")
    assert (run.task, run.steps, run.seed, dict(run.options)) == ("graph", 40, 1, {"aggregation": "quantized"})
    assert "keep" in VERSION_1  # the argument is not changed


def test_upgrading_keeps_present_values():
    run = RunConfig("image", "static:8", 4, test_weights="last", diagnostics=True, learning_rate="hold@0..2")
    assert upgraded(run.as_dict()) == run.as_dict()


def test_an_unknown_field_is_named():
    with pytest.raises(ValueError, match="a run has no field keep, rate"):
        RunConfig.from_dict({"task": "graph", "schedule": "static:8", "steps": 4, "keep": "last", "rate": ""})


def test_values_are_plain():
    values = RunConfig("graph", "static:8", 4, test_weights=WeightChoice.LAST).as_dict()
    assert type(values["test_weights"]) is str
    assert json.loads(json.dumps(values)) == values


def test_names_do_not_depend_on_how_a_choice_is_given():
    """The hash is part of every study: it stays what it is."""
    runs = [RunConfig("graph", "static:8", 4, test_weights=choice) for choice in ("last", WeightChoice.LAST)]
    assert runs[0] == runs[1]
    assert {run.name for run in runs} == {"dc04f19a10a4471f"}
    assert RunConfig("graph", "static:8", 4).name == "4a74973c49279d09"
