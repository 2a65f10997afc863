"""Studies made up for tests: records as a run leaves them, and their analyses."""

import dataclasses
import math
import random

import numpy as np

from bitcycle.lab.report import StudyInfo
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.statistics import analyse
from bitcycle.lab.statistics.deficits import analyse_deficits
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.schedules import TEN, schedule

STEPS = 4000
SPECS = [*(f"{name}:3-8:cycles=8" for name in TEN), "static:6", "static:8", "full"]
NAN = math.nan


def make_records(specs=SPECS, seeds=(0, 1, 2), task="image", metric="accuracy", diverged=(), measured=False, points=40):
    """Records in which quality grows with cost and with early precision, and chance adds its part."""
    chance = random.Random(f"{task} {metric}")
    return [_record(RunConfig(task, spec, STEPS, seed), metric, spec in diverged, measured, points, chance)
            for spec in specs for seed in seeds]  # fmt: skip


def _record(run, metric, diverged, measured, points, chance):
    s = schedule(run.schedule)
    relative = _relative_cost(run.schedule)
    merit = 0.03 * min(1.0, relative) + 0.002 * min(8.0, s.mean_bits(STEPS, 0.1)) + chance.gauss(0, 0.0025)
    higher = metric != "perplexity"
    test = 0.915 + merit if higher else 118 - 600 * merit
    curve = []
    for i in range(1, points + 1):
        step = STEPS * i // points
        course = 1 - math.exp(-4.5 * i / points)
        validation = (0.1 + (test - 0.1) * course if higher else test + 700 * (1 - course) ** 2) + chance.gauss(
            0, 0.002
        )
        entry = {
            "step": step,
            "bits": float(s(step - 1, STEPS) or 32),
            "loss": 2 * (1 - course),
            "validation": validation,
        }
        if measured:
            entry |= {"gradient_norm": 5 * (1.2 - course) + chance.gauss(0, 0.05), "sharpness": 10 ** (3 * course)}
        curve.append(entry)
    if diverged:
        test = NAN
    cost = round(4.2e12 * relative)
    versions = {"bitcycle": "0.1.0", "torch": "2.13.0"}
    return RunResult(run, metric, higher, test, test, STEPS, cost, 40 + relative, curve=curve, versions=versions)


def _relative_cost(spec):
    s = schedule(spec)
    return 32**2 / 8**2 if spec == "full" else (6 * 6 + 2 * 36) / 192 if spec == "static:6" else 1 - s.saving(STEPS)


def make_analysis(records, title="Handwritten digits, ResNet-8"):
    """The analysis of the records of one question."""
    [analysis] = analyse(records)
    return dataclasses.replace(analysis, title=title)


def make_study(planned=39, done=39, failed=(), **changes):
    """The frame of a study."""
    values = {
        "name": "Ten schedules on handwritten digits",
        "command": "bitcycle study run image --schedules all --seeds 3 --steps 4000 --out out/digits",
        "planned": planned,
        "done": done,
        "failed": list(failed),
        "versions": {"bitcycle": "0.1.0", "torch": "2.13.0", "Python": "3.11.9", "numpy": "2.4.6"},
        "seeds": [0, 1, 2],
        "started": "2026-03-01T09:12:45",
        "ended": "2026-03-01T09:41:02",
        "seconds": 3127.4,
        "workers": 2,
        "plan": 'task = "image"\nschedules = ["all"]\nseeds = 3\n',
    }
    return StudyInfo(**{**values, **changes})


DEFICIT = DeficitPart("image", (3, 8), STEPS)


def damage(cell, part):
    """By how much quality falls: with the length of a deficit, less where it comes late, little after a restart."""
    if cell.arm == "longer":
        return 0.0
    share = cell.place / part.steps
    held = 0.02 * share if cell.experiment == "length" else 0.02 * part.window * (1 - share)
    return held if cell.arm == "held" else 0.2 * held


def make_deficit_records(
    part=DEFICIT, effect=damage, metric="accuracy", noise=0.0015, diverged=lambda cell, seed: False, points=40
):
    """Records of all runs of deficit experiments; ``effect`` says what is lost, and chance adds its part."""
    chance = random.Random(f"{part.task} {metric}")
    found = {}
    for cell, run in part.cells():
        lost = effect(cell, part) + 0.003 * run.seed + chance.gauss(0, noise)
        test = 118 + 600 * lost if metric == "perplexity" else 0.93 - lost
        test = NAN if diverged(cell, run.seed) else test
        curve = _measured(run, part, points) if run.diagnostics else []
        versions = {"bitcycle": "0.1.0", "torch": "2.13.0"}
        higher = metric != "perplexity"
        found[run] = RunResult(run, metric, higher, test, test, run.steps, 10**12, 40.0, curve=curve, versions=versions)
    return list(found.values())


def _measured(run, part, points):
    """Evaluations with measurements; a change of bits is seen once, at the first evaluation after it."""
    bits = schedule(run.schedule).over(run.steps)
    changes = 1 + np.flatnonzero(np.diff(bits))
    return [_evaluated(run, part, bits, changes, run.steps * i // points, points) for i in range(1, points + 1)]


def _evaluated(run, part, bits, changes, step, points):
    low = bits[min(step, run.steps - 1)] == part.bits[0]
    chance = random.Random(f"{run.name} {step}")
    entry = {
        "step": step,
        "bits": float(bits[step - 1]),
        "loss": math.exp(-step / STEPS),
        "validation": 0.9 - 0.8 * math.exp(-4 * step / STEPS),
        "Fisher information": (40 if low else 90) * (step / STEPS) * math.exp(-3 * step / STEPS)
        + 0.05 * (1 + chance.random()),
        "gradient over noise": (0.7 if low else 18) * math.exp(-0.4 * step / STEPS) * (1 + 0.1 * chance.random()),
        "gradient diversity": 0.55 + 0.4 * (1 - math.exp(-step / STEPS)) + 0.03 * chance.random(),
    }
    if any(step - run.steps // points <= change < step for change in changes):
        entry["gradient after a change of bits"] = 0.6 + 0.2 * chance.random()
        entry["update after a change of bits"] = 0.9 + 0.2 * chance.random()
    return entry


def make_deficits(part=DEFICIT, **changes):
    """An analysis of deficit experiments, with its records."""
    records = make_deficit_records(part, **changes)
    return analyse_deficits(part, records), records
