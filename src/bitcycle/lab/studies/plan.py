"""Plans: schedules x bits x cycles x options x seeds, for one or several tasks, as a list of runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

from bitcycle.lab.runs.learning_rate import LearningRatePolicy
from bitcycle.lab.runs.run_config import COMPARED, RunConfig
from bitcycle.lab.schedule_summary import complete
from bitcycle.lab.studies.deficits import DeficitPart
from bitcycle.schedules import Constant, Schedule
from bitcycle.schedules.cyclic import TEN

BASELINES = ("static q_max", "static q_min", "full")
"""The baselines as a plan names them; q_min and q_max are those of the plan."""
MAX_SEEDS = 100_000
"""Far more than any study needs; a larger number is a mistake that would fill the memory."""
GROUPS = {"ten": tuple(TEN), "baselines": BASELINES, "all": (*TEN, *BASELINES)}
"""Names that stand for several schedules."""


@dataclass(frozen=True)
class StudyPart:
    """The runs of a study on one task: all combinations of the values that are tuples.

    >>> part = StudyPart("image", ("CR", "static q_max"), bits=((3, 8),), cycles=(8,), seeds=(0, 1), steps=400)
    >>> [(run.schedule, run.seed) for run in part.runs()]
    [('CR:3-8:cycles=8', 0), ('static:8', 0), ('CR:3-8:cycles=8', 1), ('static:8', 1)]
    """

    task: str
    schedules: tuple[str, ...]
    bits: tuple[tuple[int, int], ...]
    cycles: tuple[int, ...]
    seeds: tuple[int, ...]
    steps: int
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the runs by name, where they are not the default: tuples of the values of those that are
    compared, and of each option of the task."""

    def runs(self) -> Iterator[RunConfig]:
        """Yield all runs seed by seed, so that a study that stops early has compared everything on some seeds."""
        distinct = list(dict.fromkeys(self._conditions()))
        for seed in self.seeds:
            for run in distinct:
                yield replace(run, seed=seed)

    def _conditions(self) -> Iterator[RunConfig]:
        """Yield a run of each combination but for the seeds."""
        fixed = {name: value for name, value in self.fields.items() if name not in (*COMPARED, "options")}
        compared = {name: self.fields[name] for name in COMPARED if name in self.fields}
        options = self.fields.get("options", {})
        for texts, (schedule, q_max), chosen in product(
            product(*options.values()), self._schedules(), product(*compared.values())
        ):
            values = {**fixed, **dict(zip(compared, chosen, strict=True))}
            values["backward_bits"] = _gradient_bits(values.get("backward_bits", "max"), schedule, q_max)
            values["options"] = dict(zip(options, texts, strict=True))
            yield RunConfig(self.task, str(schedule), self.steps, **values)

    def _schedules(self) -> list[tuple[Schedule, int]]:
        """Return the schedules, each with q_max of the plan."""
        return [
            (_completed(each, bits, cycles), bits[1])
            for bits, cycles, name in product(self.bits, self.cycles, self.schedules)
            for each in GROUPS.get(name, (name,))
        ]


def _completed(name: str, bits: tuple[int, int], cycles: int) -> Schedule:
    if name == "static q_max":
        return Constant(bits[1])
    if name == "static q_min":
        return Constant(bits[0])
    return complete(name, bits, cycles)


def _gradient_bits(given: int | str | None, schedule: Schedule, q_max: int) -> int | str | None:
    """Return the bits of the gradients of a run: a static schedule has the plan's q_max, as the others do."""
    if schedule.is_static and schedule.limits(1)[1] is None:
        return "max"
    return q_max if given == "max" and schedule.is_static else given


class Purpose(StrEnum):
    """What a run of a study is for."""

    COMPARISON = "comparison"
    """It is compared with the other runs of its task."""
    DEFICIT = "deficit"
    """It belongs to an experiment on critical learning periods."""


@dataclass(frozen=True)
class Plan:
    """The name of a study and its parts."""

    name: str
    parts: tuple[StudyPart | DeficitPart, ...]

    def runs(self) -> list[RunConfig]:
        """Return the distinct runs of all parts, seed by seed."""
        by_seed: dict[int, dict[RunConfig, None]] = {}
        for part in self.parts:
            for run in part.runs():
                by_seed.setdefault(run.seed, {})[run] = None
        return [run for runs in by_seed.values() for run in runs]

    @property
    def deficits(self) -> list[DeficitPart]:
        """The parts that are experiments on critical learning periods."""
        return [part for part in self.parts if isinstance(part, DeficitPart)]

    def purposes(self) -> dict[RunConfig, Purpose]:
        """Return all runs, each with its purpose; one that a deficit experiment has is not compared as well."""
        deficits = {run for part in self.deficits for run in part.runs()}
        return {run: Purpose.DEFICIT if run in deficits else Purpose.COMPARISON for run in self.runs()}

    def check(self) -> None:
        """Check tasks, models, options, schedules and learning-rate policies before anything runs.

        Raises:
            ValueError: Something is wrong; the message says what.
        """
        from bitcycle.lab.tasks import task_of  # loads torch

        for part in self.parts:
            if len(part.seeds) > MAX_SEEDS:
                raise ValueError(f"a study can have up to {MAX_SEEDS:,} seeds, got {len(part.seeds):,}")
        first = {run.condition: run for run in reversed(self.runs())}
        if not first:
            raise ValueError(f"the study {self.name!r} has no runs")
        for run in reversed(first.values()):
            task = task_of(run)
            task.chosen_model(run)
            task.chosen_options(run)
            LearningRatePolicy.of(run.learning_rate, run.steps)
            run.schedules.at(0, run.steps)
            check_widths(run)

    def as_toml(self) -> str:
        """Return the plan as TOML text that :mod:`bitcycle.lab.studies.plan_file` reads."""
        lines = [f"name = {_toml(self.name)}"]
        for part in self.parts:
            lines += ["", "[[part]]" if isinstance(part, StudyPart) else "[[deficit]]"]
            values = {key: value for key, value in vars(part).items() if key != "fields"} | part.fields
            lines += [f"{key} = {_toml(value)}" for key, value in values.items()]
        return "\n".join(lines) + "\n"


def check_data(runs: Iterable[RunConfig]) -> None:
    """Raise a DataError if the data of a run that is to be trained is not there."""
    from bitcycle.lab.data.files import DataError, is_there
    from bitcycle.lab.data.official import OFFICIAL

    for data in dict.fromkeys(run.data for run in runs):
        if data and data not in OFFICIAL and not is_there(Path(data)):
            raise DataError(f"{data}: there is no such file or folder")


def check_widths(run: RunConfig) -> None:
    """Raise a ValueError if the grid of a run lacks a constant width, or has none as large as a schedule's largest."""
    from bitcycle.grids import grid_family

    run.schedules.check(run.steps, grid_family(run.grid).check_schedule)


def _toml(value: Any) -> str:
    """Return a value as TOML. Its texts, numbers and arrays are those of JSON."""
    if value is None:  # bits
        return '"full"'
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
