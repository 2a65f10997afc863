"""Plans: schedules x bits x cycles x options x seeds, for one task or several, as a list of runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any

from bitcycle._study.deficits import DeficitPart
from bitcycle.experiments.learning_rate import LearningRatePolicy
from bitcycle.experiments.run_config import RunConfig
from bitcycle.schedules import Constant, Schedule, complete, schedule
from bitcycle.schedules.base import width_of
from bitcycle.schedules.cyclic import TEN

BASELINES = ("static q_max", "static q_min", "full")
"""As a plan names them: their bits are those of the plan."""
WORDS = {"ten": tuple(TEN), "baselines": BASELINES, "all": (*TEN, *BASELINES)}
"""What stands for several schedules."""


@dataclass(frozen=True)
class Part:
    """What a study asks of one task. Every list multiplies the runs.

    >>> part = Part("image", schedules=("CR", "static q_max"), bits=((3, 8),), cycles=(8,), seeds=(0, 1), steps=400)
    >>> [(run.schedule, run.seed) for run in part.runs()]
    [('CR:3-8:cycles=8', 0), ('static:8', 0), ('CR:3-8:cycles=8', 1), ('static:8', 1)]
    """

    task: str
    schedules: tuple[str, ...]
    bits: tuple[tuple[int, int], ...]
    cycles: tuple[int, ...]
    seeds: tuple[int, ...]
    steps: int
    backward_bits: int | str | None = "max"
    model: str = ""
    data: str = ""
    batch_size: int = 0
    autocast: bool = False
    test_weights: str = "best"
    """``best`` on validation, or ``last``: which weights are tested."""
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def runs(self) -> Iterable[RunConfig]:
        """Seed by seed, so that a study that is stopped early has compared everything on the seeds it did."""
        for seed, values in product(self.seeds, product(*self.options.values())):
            for spec, backward in self._schedules():
                yield RunConfig(
                    self.task,
                    spec,
                    self.steps,
                    seed,
                    backward,
                    self.model,
                    self.data,
                    self.batch_size,
                    self.autocast,
                    test_weights=self.test_weights,
                    options=dict(zip(self.options, values, strict=True)),
                )

    def values(self) -> dict[str, Any]:
        """As a table of a plan file, under ``[[part]]``."""
        backward = "full" if self.backward_bits is None else self.backward_bits
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"backward_bits": backward}

    def _schedules(self) -> list[tuple[str, int | str | None]]:
        """Specs with the bits of the gradients, none twice."""
        found: dict[tuple[str, int | str | None], None] = {}
        for bits, cycles, name in product(self.bits, self.cycles, self.schedules):
            for one in WORDS.get(name, (name,)):
                made = _scheduled(one, bits, cycles)
                found[str(made), self._backward(made, bits[1])] = None
        return list(found)

    def _backward(self, made: Schedule, q_max: int) -> int | str | None:
        """A fixed width has no q_max but its own: its gradients take the plan's, as those of the schedules do."""
        fixed = isinstance(made, Constant)
        if fixed and made.limits(1)[1] is None:
            return "max"
        return q_max if self.backward_bits == "max" and fixed else self.backward_bits


def _scheduled(name: str, bits: tuple[int, int], cycles: int) -> Schedule:
    if name == "static q_max":
        return Constant(bits[1])
    if name == "static q_min":
        return Constant(bits[0])
    return complete(name, bits, cycles)


@dataclass(frozen=True)
class Plan:
    """A study to be: its name and its parts."""

    name: str
    parts: tuple[Part | DeficitPart, ...]

    def runs(self) -> list[RunConfig]:
        """All runs, seed by seed over all parts, none twice."""
        by_seed: dict[int, dict[RunConfig, None]] = {}
        for part in self.parts:
            for run in part.runs():
                by_seed.setdefault(run.seed, {})[run] = None
        return [run for runs in by_seed.values() for run in runs]

    def check(self) -> None:
        """Find what is wrong before anything runs: tasks, models, options, and schedules that do not fit."""
        from bitcycle.experiments.tasks import task_named

        if not self.runs():
            raise ValueError(f"the study {self.name!r} has no runs")
        for run in self.runs():
            task = task_named(run.task)
            task.chosen_model(run)
            task.chosen_options(run)
            LearningRatePolicy.of(run.learning_rate, run.steps)
            low, high = schedule(run.schedule).limits(run.steps)
            if width_of(high) not in (*range(1, 17), 32) or width_of(low) < 1:
                raise ValueError(f"{run.schedule}: widths go from 1 to 16 bits")

    def as_toml(self) -> str:
        """The plan as a file that :mod:`bitcycle._study.plan_file` reads."""
        lines = [f"name = {_toml(self.name)}"]
        for part in self.parts:
            lines += ["", "[[part]]" if isinstance(part, Part) else "[[deficit]]"]
            lines += [f"{key} = {_toml(value)}" for key, value in part.values().items() if value not in ("", {})]
        return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        escaped = "".join(f"\\u{ord(c):04x}" if ord(c) < 32 or c in '"\\\x7f' else c for c in value)
        return f'"{escaped}"'
    return str(value)
