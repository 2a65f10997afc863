"""Advice from a store of one's own runs."""

import pytest
from torch import nn

import bitcycle as bc
from bitcycle.lab.advice import advise
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.evidence import evidence_from
from bitcycle.lab.studies.plan import Purpose
from bitcycle.lab.studies.store import Store
from tests.support.command import bitcycle

# Perplexity, where less is better: RR loses, CR does not.
PLANTED = {"static:8": (100.0, 1000), "CR:3-8:cycles=8": (100.1, 640), "RR:3-8:cycles=8": (110.0, 400)}


def write(path, study, results):
    """Write a study with these results."""
    with Store(path) as store:
        store.begin(study, dict.fromkeys([each.run for each in results], Purpose.COMPARISON), "plan", "command")
        for each in results:
            store.write(each)
    return path


@pytest.fixture
def path(tmp_path):
    results = []
    for spec, (metric, bitops) in PLANTED.items():
        for seed in range(5):
            run, noise = RunConfig("language", spec, 400, seed), (0.0, 0.4, -0.3, 0.1, -0.2)[(seed + len(spec)) % 5]
            results.append(RunResult(run, "perplexity", False, metric + noise, metric, 400, bitops, 1.0))
    return write(tmp_path / "s.sqlite", "words", results)


def test_the_cheapest_setting_that_is_not_worse(path):
    records, steps = evidence_from(path, "", None)
    advice = advise(steps=steps, records=records)
    assert str(advice.schedule) == "CR:3-8:cycles=8"
    assert advice.saving == pytest.approx(0.36)
    assert any("RR:3-8:cycles=8 is significantly worse" in reason.rule for reason in advice.reasons)


def test_by_the_command_line(path):
    done = bitcycle("advise", "--store", str(path))
    assert done.returncode == 0, done.stderr
    assert "use CR:3-8:cycles=8: saves 36.0 %" in done.stdout
    assert "your runs" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--study", "word"), "has no study 'word'; did you mean 'words'"),
        (("--domain", "image"), "no runs of the task 'image'"),
    ],
)
def test_misuse(path, arguments, message):
    done = bitcycle("advise", "--store", str(path), *arguments)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("of_runs", "quantize", "scheduler"),
    [
        ({}, "bc.quantize(model)\n", "backward_bits=8)"),
        ({"backward_bits": 6}, "bc.quantize(model)\n", "backward_bits=6)"),
        ({"backward_bits": None}, "bc.quantize(model)\n", "backward_bits=None)"),
        ({"grid": "mx"}, 'bc.quantize(model, bc.Recipe(grid="mx"))\n', "backward_bits=8)"),
        ({"evaluate_at": "current"}, 'bc.quantize(model, bc.Recipe(evaluate_at="current"))\n', "backward_bits=8)"),
        ({"activations": "static:8"}, "bc.quantize(model)\n", 'backward_bits=8, activations="static:8")'),
        ({"weights": "CR:4-8:cycles=2"}, "bc.quantize(model)\n", 'backward_bits=8, weights="CR:4-8:cycles=2")'),
        ({"strength": "linear-rise"}, "bc.quantize(model)\n", 'backward_bits="max", strength="linear-rise")'),
    ],
)
def test_the_code_trains_as_the_runs_were_trained(tmp_path, of_runs, quantize, scheduler):
    runs = [RunConfig("graph", spec, 150, seed, **of_runs) for spec in ("static:8", "CR:4-8") for seed in range(5)]
    costs = {"static:8": 1000, "CR:4-8": 600}
    results = [
        RunResult(run, "accuracy", True, 0.9 + 0.001 * (run.seed % 3), 0.9, 150, costs[run.schedule], 1.0)
        for run in runs
    ]
    records, steps = evidence_from(write(tmp_path / "s.sqlite", "alike", results), "", None)
    advice = advise(steps=steps, records=records)
    assert advice.spec == "CR:4-8:cycles=8"
    assert advice.code.startswith(quantize)
    assert scheduler in advice.code
    names = {"bc": bc, "model": nn.Sequential(nn.Linear(32, 4))}
    exec(advice.code, names)
    assert all(names["precision"].operands.at(step, 150) == runs[-1].schedules.at(step, 150) for step in range(150))


@pytest.mark.parametrize("overrides", [{"grid": "mx"}, {"activations": "static:8"}, {"strength": "0.5"}])
def test_runs_that_differ_in_more_than_the_schedule_are_no_evidence(path, overrides):
    runs = [RunConfig("language", "static:8", 400, seed, **(overrides if seed else {})) for seed in range(2)]
    write(path, "mixed", [RunResult(run, "perplexity", False, 100.0, 100.0, 400, 1000, 1.0) for run in runs])
    with pytest.raises(ValueError, match="the runs of language differ in .* grid, weights, activations or strength"):
        evidence_from(path, "mixed", None)
