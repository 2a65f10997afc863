"""Every field of a run works everywhere: in plan files, in ``bc.study`` and as an option of the commands."""

import csv
import inspect
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bitcycle as bc
from bitcycle.cli.app import application
from bitcycle.conversion.sites import sites
from bitcycle.lab.runs.run_config import COMPARED, DEFAULTS, FIELDS, KEYWORDS, RECIPES, RunConfig, WeightChoice
from bitcycle.lab.runs.training import prepare
from bitcycle.lab.studies import deficits, from_python
from bitcycle.lab.studies.plan_file import plan_of

FIGURES = Path(__file__).parents[3] / "evidence" / "figures"
VALUES = {
    "steps": 7,
    "backward_bits": 6,
    "model": "sage",
    "batch_size": 16,
    "autocast": True,
    "compiled": True,
    "test_weights": "last",
    "diagnostics": True,
    "learning_rate": "hold@0..2",
    "weights": "static:4",
    "activations": "static:6",
    "strength": "0.5",
    "recipe": "default",
    "grid": "mx",
    "evaluate_at": "current",
    "options": {"aggregation": "quantized"},
}
"""A value of each field that is not the default."""


class StoppedError(Exception):
    """Raised instead of training."""


@pytest.fixture
def started(monkeypatch):
    """What the commands would train: a list of runs that each of them fills."""
    runs = []

    def stop(plan, *arguments):
        runs.extend(plan.runs())
        raise StoppedError

    def stop_training(run, *arguments):
        runs.append(run)
        raise StoppedError

    monkeypatch.setattr("bitcycle.cli.deficit.run_plan", stop)  # first: importing it takes the function from study
    monkeypatch.setattr("bitcycle.cli.study.run_plan", stop)
    monkeypatch.setattr("bitcycle.lab.runs.training.train", stop_training)
    monkeypatch.setattr(from_python, "check_data", lambda runs: stop_training(*runs[:1]))
    return runs


def words(name, value):
    """The option of a command for a value."""
    option = KEYWORDS[name].option or f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [option]
    text = "=".join(*value.items()) if isinstance(value, dict) else str(value)
    return [option, text]


def as_stored(name, value):
    return tuple(value.items()) if name == "options" else value


def test_every_field_has_a_value_here():
    assert VALUES.keys() == KEYWORDS.keys() - {"data"}
    assert all(value != DEFAULTS[name] for name, value in VALUES.items())
    assert all(info.help for info in FIELDS.values())


@pytest.mark.parametrize("name", VALUES)
def test_a_plan_has_the_key(name):
    [run] = plan_of({"task": "graph", "schedules": "CR", "seeds": 1, name: VALUES[name]}).runs()
    assert getattr(run, name) == as_stored(name, VALUES[name])
    if name in COMPARED:
        several = plan_of({"task": "graph", "schedules": "CR", "seeds": 1, name: [VALUES[name], DEFAULTS[name]]})
        assert [getattr(run, name) for run in several.runs()] == [VALUES[name], DEFAULTS[name]]


@pytest.mark.parametrize("name", VALUES)
def test_study_has_the_keyword(name, started, tmp_path):
    assert name in inspect.signature(bc.study).parameters
    assert f"        {name}: {KEYWORDS[name].help[:40]}" in bc.study.__doc__
    with pytest.raises(StoppedError):
        bc.study("graph", "CR", seeds=1, store=tmp_path / "s.sqlite", **{name: VALUES[name]})
    assert getattr(started[0], name) == as_stored(name, VALUES[name])


@pytest.mark.parametrize("command", ["train", "study", "deficit"])
@pytest.mark.parametrize("name", VALUES)
def test_commands_have_the_option(command, name, started):
    if command == "deficit" and name in deficits.FIXED:
        return
    fixed = {"train": ["--schedule", "CR"], "study": ["--schedules", "CR", "--seeds", "1"]}
    small = fixed.get(command, ["--seeds", "1", "--lengths", "0", "--window", "0"])
    done = CliRunner().invoke(application(), [command, "graph", *small, *words(name, VALUES[name])])
    assert isinstance(done.exception, StoppedError), (done.output, done.exception)
    assert getattr(started[0], name) == as_stored(name, VALUES[name])


def test_an_unknown_keyword_is_an_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'modell'; did you mean 'model'"):
        bc.study("graph", modell="gcn")


def test_a_field_changes_the_name_only_if_it_is_not_the_default():
    plain = RunConfig("graph", "CR:3-8:cycles=8", 150)
    for name, value in VALUES.items():
        assert RunConfig(**{**plain.as_dict(), name: value}).name != plain.name
    assert RunConfig(**plain.as_dict()).name == plain.name


@pytest.mark.parametrize("file", ["digits-cycles", "digit-graph-cycles", "python-text-cycles"])
def test_published_runs_keep_their_names(file):
    """The figures of the repository are keyed by the names of the runs."""
    from evidence.design import Role, read_design
    from evidence.studies import planned_study

    design = read_design(FIGURES.parent)
    domain, study = next(
        (domain, study) for domain in design.domains for study in domain.studies if file == f"{domain.id}-{study}"
    )
    with (FIGURES / f"{file}.csv").open(newline="") as opened:
        published = {(row["setting"], int(row["seed"])): row["run"] for row in csv.DictReader(opened)}
    planned = planned_study(design, domain, study, Role.JUDGING).runs
    names = {(setting, run.seed): run.name for setting, run in planned}
    assert published
    assert {key: names[key] for key in published} == published


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


@pytest.mark.parametrize(("name", "expected"), [("default", bc.Recipe()), ("paper", bc.Recipe.paper())])
def test_a_run_can_choose_the_grids_of_a_recipe(name, expected):
    """The names are known without torch, so the table repeats what the recipes say."""
    changes = RECIPES[name]
    assert all(getattr(expected, field) == value for field, value in changes.items())
    assert {*bc.Recipe.paper().changes()} == {*changes}
    run = RunConfig("image", "static:4", 2, recipe=name)
    assert run.name != RunConfig("image", "static:4", 2).name
    training = prepare(run)
    recipes = {site.recipe for site in sites(training.model).values()}
    assert {(recipe.activations, recipe.grad_output) for recipe in recipes} == {
        (expected.activations, expected.grad_output)
    }
