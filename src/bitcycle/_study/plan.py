"""Plans: schedules x bits x cycles x options x seeds, for one or several tasks, as a list of runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from bitcycle._study.deficits import DeficitPart
from bitcycle.experiments.learning_rate import LearningRatePolicy
from bitcycle.experiments.run_config import RunConfig, grouped_by_setting
from bitcycle.schedules import Constant, Mixed, Schedule, complete
from bitcycle.schedules.cyclic import TEN

BASELINES = ("static q_max", "static q_min", "full")
"""The baselines as a plan names them; q_min and q_max are those of the plan."""
MAX_SEEDS = 100_000
"""Far more than any study needs; a larger number is a mistake that would fill the memory."""
GROUPS = {"ten": tuple(TEN), "baselines": BASELINES, "all": (*TEN, *BASELINES)}
"""Names that stand for several schedules."""


MOVES = ("weights", "activations", "strength")
"""What moves apart from the schedule."""


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
    backward_bits: int | str | None = "max"
    model: str = ""
    data: str = ""
    batch_size: int = 0
    autocast: bool = False
    test_weights: str = "best"
    """Which weights are tested: the ``best`` on validation, or the ``last``."""
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    weights: tuple[str, ...] = ("",)
    """Schedules of weights; an empty one is that of the run."""
    activations: tuple[str, ...] = ("",)
    """Schedules of activations; an empty one is that of the run."""
    strength: tuple[str, ...] = ("",)
    """Strengths; an empty one is full strength."""
    source: str = ""
    """The digest of the source of a user's task."""
    fingerprint: str = ""
    """The fingerprint of the data."""
    grid: tuple[str, ...] = ("integer",)
    """What the widths mean: grids of :mod:`bitcycle.grids`."""
    evaluate_at: str = "max"
    """The width of validation and testing: the ``max`` of the schedule, or the ``current`` one."""

    def runs(self) -> Iterable[RunConfig]:
        """Yield all runs seed by seed, so that a study that stops early has compared everything on some seeds."""
        settings = list(self._settings())
        for seed in self.seeds:
            for setting in settings:
                yield setting.with_seed(seed)

    def _settings(self) -> Iterable[RunConfig]:
        moves = product(self.weights, self.activations, self.strength)
        for values, grid, (spec, backward), (weights, activations, strength) in product(
            product(*self.options.values()), self.grid, self._schedules(), moves
        ):
            yield RunConfig(
                self.task,
                spec,
                self.steps,
                backward_bits=backward,
                model=self.model,
                data=self.data,
                batch_size=self.batch_size,
                autocast=self.autocast,
                test_weights=self.test_weights,
                weights=weights,
                activations=activations,
                strength=strength,
                grid=grid,
                evaluate_at=self.evaluate_at,
                options=dict(zip(self.options, values, strict=True)),
                source=self.source,
                fingerprint=self.fingerprint,
            )

    def values(self) -> dict[str, Any]:
        """Return the table of a plan file, under ``[[part]]``."""
        backward = "full" if self.backward_bits is None else self.backward_bits
        values = {field.name: getattr(self, field.name) for field in fields(self)} | {"backward_bits": backward}
        # Left out: earlier plans do not have them.
        defaults = dict.fromkeys(MOVES, ("",)) | {"grid": ("integer",), "evaluate_at": "max"}
        return {name: value for name, value in values.items() if value != defaults.get(name)}

    def _schedules(self) -> list[tuple[str, int | str | None]]:
        """Return the distinct specs, each with the bits of the gradients."""
        distinct: dict[tuple[str, int | str | None], None] = {}
        for bits, cycles, name in product(self.bits, self.cycles, self.schedules):
            for each in GROUPS.get(name, (name,)):
                completed = _completed(each, bits, cycles)
                distinct[str(completed), self._backward(completed, bits[1])] = None
        return list(distinct)

    def _backward(self, completed: Schedule, q_max: int) -> int | str | None:
        """Return the bits of the gradients: a static schedule takes the plan's q_max, as the others do."""
        fixed = isinstance(completed, (Constant, Mixed))
        if fixed and completed.limits(1)[1] is None:
            return "max"
        return q_max if self.backward_bits == "max" and fixed else self.backward_bits


def _completed(name: str, bits: tuple[int, int], cycles: int) -> Schedule:
    if name == "static q_max":
        return Constant(bits[1])
    if name == "static q_min":
        return Constant(bits[0])
    return complete(name, bits, cycles)


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

    def check(self) -> None:
        """Check tasks, models, options, schedules and learning-rate policies before anything runs.

        Raises:
            ValueError: Something is wrong; the message says what.
        """
        from bitcycle.experiments.tasks import task_of  # loads torch, which reading a stored plan does not need

        for part in self.parts:
            if len(part.seeds) > MAX_SEEDS:
                raise ValueError(f"a study can have up to {MAX_SEEDS:,} seeds, got {len(part.seeds):,}")
        settings = [group[0].setting for group in grouped_by_setting(self.runs())]
        if not settings:
            raise ValueError(f"the study {self.name!r} has no runs")
        for run in settings:
            task = task_of(run)
            task.chosen_model(run)
            task.chosen_options(run)
            LearningRatePolicy.of(run.learning_rate, run.steps)
            run.schedules.at(0, run.steps)
            check_widths(run)

    def as_toml(self) -> str:
        """Return the plan as TOML text that :mod:`bitcycle._study.plan_file` reads."""
        lines = [f"name = {_toml(self.name)}"]
        for part in self.parts:
            lines += ["", "[[part]]" if isinstance(part, StudyPart) else "[[deficit]]"]
            lines += [f"{key} = {_toml(value)}" for key, value in part.values().items() if value not in ("", {})]
        return "\n".join(lines) + "\n"


def check_data(runs: Iterable[RunConfig]) -> None:
    """Raise a DataError if the data of a run that is to be trained is not there."""
    from bitcycle.experiments.data.files import DataError, is_there
    from bitcycle.experiments.data.official import OFFICIAL

    for data in dict.fromkeys(run.data for run in runs):
        if data and data not in OFFICIAL and not is_there(Path(data)):
            raise DataError(f"{data}: there is no such file or folder")


def check_widths(run: RunConfig) -> None:
    """Raise a ValueError if the grid of a run lacks a constant width, or has none as large as a schedule's largest."""
    from bitcycle.grids import grid_family

    run.schedules.check(run.steps, grid_family(run.grid).check_schedule)


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
