"""Run configurations: names and plain values."""

import json

import pytest

from bitcycle.lab.runs.run_config import RunConfig, WeightChoice


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
