"""Made-up records for the tests of the statistics: costs by the schedules, qualities as a test plants them."""

import numpy as np

from bitcycle.lab.report.words import details
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.statistics import analyse
from bitcycle.schedules import TEN, schedule

STEPS = 160
TEN_SPECS = [f"{name}:3-8:cycles=8" for name in TEN]
SPECS = ["static:8", "static:3", *TEN_SPECS]


def record(spec, seed, quality, bitops=None, higher_is_better=True, **of_run):
    """A finished run; its cost is the paper's ``q^2 + 2 q b`` unless given, the gradients on 8 bits."""
    run = RunConfig("graph", spec, of_run.pop("steps", STEPS), seed, **of_run)
    if bitops is None:
        widths = np.array([32 if bits is None else bits for bits in schedule(spec).over(run.steps)])
        bitops = int((widths * widths + 2 * widths * 8).sum())
    metric = "accuracy" if higher_is_better else "perplexity"
    return RunResult(run, metric, higher_is_better, quality, quality, run.steps, bitops, 2.0)


def study(quality, specs=SPECS, seeds=5, higher_is_better=True, steps=STEPS):
    """Records of every spec and seed; ``quality(schedule, cost, seed)`` with the cost relative to static 8."""
    return [
        record(spec, seed, quality(schedule(spec), _cost(spec, steps), seed), None, higher_is_better, steps=steps)
        for spec in specs
        for seed in range(seeds)
    ]


def rising():
    """A study in which quality rises with cost, with noise, and some seeds are luckier than others."""
    noisy = noise(0.01)
    return study(lambda s, cost, seed: 0.8 + 0.1 * cost + 0.02 * seed + noisy(), [*SPECS, "full"])


def _cost(spec, steps):
    return record(spec, 0, 0.0, steps=steps).bitops / record("static:8", 0, 0.0, steps=steps).bitops


def noise(scale, seed=0):
    """A function that gives another normal number on every call, the same ones every time."""
    generator = np.random.default_rng(seed)
    return lambda: float(generator.normal(0, scale))


def only(records, margin=None):
    """The analysis of the one question that the records are about."""
    [analysis] = analyse(records, margin)
    return analysis


def setting(analysis, label):
    """The setting of a label."""
    [found] = [setting for setting in analysis.settings if setting.label == label]
    return found


def claim(analysis, kind):
    """The one claim of a kind."""
    [found] = [claim for claim in analysis.claims if claim.kind is kind]
    return found


def said(analysis, kind):
    """The details of the one claim of a kind."""
    return details(claim(analysis, kind), analysis)
