"""Curves of a report: means over the seeds."""

from bitcycle.lab.report.line_plots import Curves
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import RunConfig


def record(seed, *values):
    run = RunConfig("graph", "static:8", 4, seed)
    curve = [{"step": step, "validation": value} for step, value in enumerate(values)]
    return RunResult(run, "accuracy", True, 0.9, 0.9, 0, 1, 1.0, curve=curve)


def test_a_mean_has_the_steps_that_all_seeds_have():
    """A mean over fewer of them would jump where a seed ends."""
    records = [record(0, 0.0, 0.5, 1.0), record(1, 0.5, 1.0)]
    condition = records[0].run.condition
    assert Curves(records, [condition]).mean(condition, "validation") == [(0.0, 0.25), (1.0, 0.75)]
