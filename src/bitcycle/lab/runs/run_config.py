"""The configuration of a run: everything that determines its result, and the name that follows from it.

The fields of :class:`RunConfig` are declared here and nowhere else. The keys of plan files, the keywords of
:func:`bitcycle.study`, the options of ``bitcycle train``, ``study`` and ``deficit``, the columns of stores and tables,
the exports, and what statistics compare are made from them, see :class:`~bitcycle.lab.runs.fields.FieldInfo`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import Any

from bitcycle._support.grid_names import GRID_MODULES
from bitcycle.lab.runs.fields import (
    MAX_INTEGER,
    FieldInfo,
    declare,
    flag,
    gradient_bits,
    integer,
    one_of,
    option_values,
    spec,
    strength_spec,
)
from bitcycle.schedules.operands import OperandSchedules


class WeightChoice(StrEnum):
    """Which weights of a run are tested."""

    BEST = "best"
    """The weights with the best validation metric; of equally good ones, the latest."""
    LAST = "last"
    """The weights after the last step."""


EVALUATION_BITS = ("max", "current")
"""The widths of validation and testing."""
RECIPES: dict[str, dict[str, str | bool]] = {
    "task": {},
    "default": {"activations": "row", "attention_zero": True, "grad_output": "row and column"},
    "row": {"activations": "row", "attention_zero": True, "grad_output": "row"},
    "paper": {"activations": "tensor", "attention_zero": False, "grad_output": "tensor"},
}
"""What each choice of a recipe changes in the recipe of a task."""


@dataclass(frozen=True, eq=False)
class RunConfig:
    """One training run of a task, with one schedule and one random seed.

    Two runs with equal configurations give equal results, on the same machine with the same versions and threads. Where
    the content of the data is known by its fingerprint, the folder in which it lies makes no difference.

    Raises:
        ValueError: If ``test_weights``, ``evaluate_at`` or ``recipe`` is unknown or ``batch_size`` is negative.

    Example:
        >>> run = RunConfig("graph", "CR:3-8:cycles=8", 150, options={"aggregation": "quantized"})
        >>> run == RunConfig.from_dict(run.as_dict()), len(run.name)
        (True, 16)
        >>> run.name == RunConfig("graph", "CR:3-8:cycles=8", 150).name
        False
    """

    task: str = declare("The name of a registered task.", title="{}", is_keyword=False)
    schedule: str = declare("The precision schedule as a spec.", spec, is_keyword=False, is_compared=True)
    steps: int = declare("Training steps of a run; default: set by the task.", integer(1), title="{} steps")
    seed: int = declare(
        "Random seed of the initial weights, the batches, dropout and stochastic rounding.",
        integer(0, MAX_INTEGER),
        default=0,
        is_keyword=False,
    )
    backward_bits: int | str | None = declare(
        "Bits of the gradients: a width, 'full', or a schedule; default: q_max; full precision in steps in which "
        "both operands are in full precision.",
        gradient_bits,
        default="max",
        is_compared=True,
    )
    model: str = declare("A model of the task; default: its first model.", default="", title="model {}")
    data: str = declare(
        "A folder with official data, or a name from 'bitcycle data list'; default: the embedded data.",
        default="",
        title="data {}",
    )
    batch_size: int = declare("Samples per step; 0 = the task's default.", integer(0), default=0, title="batches of {}")
    autocast: bool = declare(
        "Train with autocast: accumulation and all other operations in bfloat16.",
        flag,
        default=False,
        title="in bfloat16",
    )
    compiled: bool = declare(
        "Compile the model with torch.compile, which changes the order of floating-point sums.",
        flag,
        default=False,
        title="compiled",
        option="--compile",
    )
    test_weights: WeightChoice | str = declare(  # noqa: RUF009 - it returns a dataclass field
        "Which weights are tested: the best on the validation set, or the last.",
        one_of(tuple(WeightChoice)),
        default=WeightChoice.BEST,
        choices=tuple(WeightChoice),
        title="{} weights",
    )
    diagnostics: bool = declare(
        "Measure Fisher information, gradient noise and more during training.",
        flag,
        default=False,
        title="with diagnostics",
        is_detail=True,
    )
    learning_rate: str = declare(
        "A change of the task's learning-rate schedule, such as hold@0..100 or restart@100.",
        default="",
        is_compared=True,
    )
    weights: str = declare("A separate schedule for weights: a spec or a width.", spec, default="", is_compared=True)
    activations: str = declare(
        "A separate schedule for activations: a spec or a width.", spec, default="", is_compared=True
    )
    strength: str = declare(
        "The strength of quantisation, 0 to 1: a number, or a spec such as linear-rise.",
        strength_spec,
        default="",
        is_compared=True,
    )
    grid: str = declare(
        f"What a width means: {', '.join(GRID_MODULES)}.",
        default="integer",
        choices=tuple(GRID_MODULES),
        is_compared=True,
    )
    evaluate_at: str = declare(
        "The width of validation and testing: the max of the schedule, or the current one.",
        one_of(EVALUATION_BITS),
        default="max",
        choices=EVALUATION_BITS,
        title="evaluated at {} bits",
    )
    recipe: str = declare(
        "The grids: as the task has them, as in bc.Recipe(), with one rounding per row, or as in bc.Recipe.paper().",
        one_of(tuple(RECIPES)),
        default="task",
        choices=tuple(RECIPES),
        is_compared=True,
    )
    options: Any = declare(  # noqa: RUF009
        "Options of the task, by name.", option_values, default=(), title="{}", option="--option"
    )
    source: str = declare(
        "The digest of the source of a user's task.", default="", title="source {}", is_keyword=False, is_detail=True
    )
    fingerprint: str = declare(
        "The fingerprint of the data.", default="", title="data fingerprint {}", is_keyword=False, is_detail=True
    )

    def __post_init__(self) -> None:
        for name in ("test_weights", "evaluate_at", "recipe"):
            FIELDS[name].parse(getattr(self, name), name)
        if self.batch_size < 0:
            raise ValueError(f"batch_size must be 1 or more, or 0 for the task's default, got {self.batch_size}")
        object.__setattr__(self, "test_weights", WeightChoice(self.test_weights))
        pairs = self.options.items() if isinstance(self.options, Mapping) else self.options
        object.__setattr__(self, "options", tuple(sorted((str(key), str(value)) for key, value in pairs)))

    @cached_property
    def name(self) -> str:
        """A hash of the content: equal for equal runs, different for different ones.

        Fields that have their default value are left out of the hash, so that a new field does not change the names of
        existing runs.
        """
        return _name({name: getattr(self, name) for name in FIELDS})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunConfig):
            return NotImplemented
        return self.seed == other.seed and self.condition == other.condition

    def __hash__(self) -> int:
        return hash((self.condition, self.seed))

    @cached_property
    def group(self) -> ComparisonGroup:
        """What the run has in common with those that it can be compared with."""
        values = {name: getattr(self, name) for name in COMMON}
        if self.fingerprint:  # the same data may be in several folders
            values["data"] = ""
        return ComparisonGroup(tuple(values.values()), self.data)

    @cached_property
    def condition(self) -> Condition:
        """The run but for its seed."""
        return Condition(self.group, tuple(getattr(self, name) for name in COMPARED))

    @property
    def schedules(self) -> OperandSchedules:
        """The schedules of weights, activations, gradients and strength."""
        return self.condition.schedules

    @property
    def description(self) -> str:
        """The schedule of the run, with its grid and the schedules of single operands if they are not the default."""
        return self.condition.description

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, for files."""
        return {name: _plain(getattr(self, name)) for name in FIELDS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunConfig:
        """Return the run with these values, as :meth:`as_dict` gives them.

        Raises:
            ValueError: If a key is not a field of a run.
        """
        if unknown := sorted(values.keys() - FIELDS.keys()):
            raise ValueError(f"a run has no field {', '.join(unknown)}")
        return cls(**values)


FIELDS: dict[str, FieldInfo] = {field.name: field.metadata["info"] for field in fields(RunConfig)}
"""What is known about each field of a run."""
DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(RunConfig)}
"""The default of each field; ``MISSING`` for those that every run must have."""
KEYWORDS = {name: info for name, info in FIELDS.items() if info.is_keyword}
"""The fields that users set by their names."""
COMPARED = tuple(name for name, info in FIELDS.items() if info.is_compared)
"""The fields in which the runs of a comparison differ, beside the seed."""
COMMON = tuple(name for name in FIELDS if name not in (*COMPARED, "seed"))
"""The fields that the runs of a comparison have in common."""
OPERAND_OVERRIDES = ("weights", "activations", "strength")
"""The fields that replace the schedule of a run for one operand, and its strength."""
OF_RECIPE = ("grid", "evaluate_at", "recipe")
"""The fields that change the recipe of a training."""


@dataclass(frozen=True)
class ComparisonGroup:
    """What runs must have in common so that their results can be compared: the fields :data:`COMMON`.

    >>> group = RunConfig("graph", "full", 150, model="gcn", options={"aggregation": "quantized"}).group
    >>> group.title, group["model"]
    ('graph, model gcn, 150 steps, aggregation=quantized', 'gcn')
    """

    values: tuple[Any, ...]
    """The values of the fields. That of the data is empty if its fingerprint is known."""
    data: str = field(default="", compare=False)

    def __getitem__(self, name: str) -> Any:
        """Return the value of a field by its name."""
        return self.data if name == "data" else self.values[COMMON.index(name)]

    @property
    def task(self) -> str:
        """The name of the task."""
        return str(self["task"])

    @property
    def steps(self) -> int:
        """Training steps of a run."""
        return int(self["steps"])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, for files."""
        return {name: _plain(self[name]) for name in COMMON}

    @property
    def title(self) -> str:
        """The group in one line, without what seldom differs."""
        first = ("task", "model", "data", "steps", "batch_size", "options")
        ordered = (*first, *(name for name in COMMON if name not in first))
        return ", ".join(self._described(name for name in ordered if not FIELDS[name].is_detail))

    @property
    def details(self) -> list[str]:
        """What seldom differs, where it is not the default."""
        return self._described(name for name in COMMON if FIELDS[name].is_detail)

    def _described(self, names: Iterable[str]) -> list[str]:
        parts = []
        for name in names:
            value, text = self[name], FIELDS[name].title or f"{name} {{}}"
            if name == "options":
                parts += [f"{key}={each}" for key, each in value]
            elif value != DEFAULTS[name]:
                parts.append(text.format(value))
        return parts


@dataclass(frozen=True)
class Condition:
    """A run but for its seed: what a comparison compares, within a group of runs that have everything else in common.

    The fields of the runs are attributes.

    >>> condition = RunConfig("graph", "static:4", 150, seed=7, activations="static:8").condition
    >>> condition == RunConfig("graph", "static:4", 150, seed=8, activations="static:8").condition
    True
    >>> condition.activations, condition.steps, condition.description
    ('static:8', 150, 'static:4 A static:8')
    """

    group: ComparisonGroup
    compared: tuple[Any, ...]
    """The values of the fields :data:`COMPARED`."""

    def __getattr__(self, name: str) -> Any:
        """Return the value of a field of the runs by its name."""
        if name in COMPARED:
            return self.compared[COMPARED.index(name)]
        if name in COMMON:
            return self.group[name]
        raise AttributeError(f"a condition has no {name}")

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the runs but for their seeds, as plain values for files."""
        return {name: _plain(getattr(self, name)) for name in FIELDS if name != "seed"}

    @cached_property
    def name(self) -> str:
        """A hash of the content: the name of the run with the default seed."""
        return _name({name: getattr(self, name) for name in FIELDS if name != "seed"})

    @property
    def schedules(self) -> OperandSchedules:
        """The schedules of weights, activations, gradients and strength."""
        return OperandSchedules.of(self.schedule, self.backward_bits, **self.overrides)

    @property
    def overrides(self) -> dict[str, Any]:
        """The schedules of weights and activations and the strength; None where they follow the schedule."""
        return {name: getattr(self, name) or None for name in OPERAND_OVERRIDES}

    @property
    def has_overrides(self) -> bool:
        """Whether weights, activations or the strength do not follow the schedule."""
        return any(self.overrides.values())

    @property
    def recipe_changes(self) -> dict[str, Any]:
        """The fields of the task's recipe that the runs change, with their values."""
        names = [name for name in OF_RECIPE if name != "recipe" and getattr(self, name) != DEFAULTS[name]]
        return {**RECIPES[self.recipe], **{name: getattr(self, name) for name in names}}

    @property
    def operands(self) -> dict[str, str]:
        """What each operand follows and how it is rounded and evaluated, with the defaults written out.

        >>> operands = RunConfig("graph", "static:4", 150, activations="static:8").condition.operands
        >>> operands["weights"], operands["activations"], operands["strength"], operands["grid"]
        ('static:4', 'static:8', '1', 'integer')
        """
        default = {"weights": self.schedule, "activations": self.schedule, "strength": "1"}
        return {name: getattr(self, name) or default[name] for name in (*OPERAND_OVERRIDES, *OF_RECIPE)}

    @property
    def description(self) -> str:
        """The schedule, with the grid and the schedules of single operands if they are not the default."""
        labels = {
            "grid": "",
            "weights": "W ",
            "activations": "A ",
            "strength": "strength ",
            "evaluate_at": "evaluated at ",
            "recipe": "recipe ",
        }
        changed = [f"{labels[name]}{getattr(self, name)}" for name in labels if getattr(self, name) != DEFAULTS[name]]
        return " ".join([self.schedule, *changed])


def _name(values: Mapping[str, Any]) -> str:
    """Return the name of a run with these values."""
    content = {
        name: _plain(value)
        for name, value in values.items()
        if value != DEFAULTS[name] and FIELDS[name].is_in_name and not (name == "data" and values["fingerprint"])
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Return a value as JSON and other files have it."""
    if isinstance(value, tuple):
        return dict(value)
    return str(value) if isinstance(value, StrEnum) else value


def operands_used(conditions: Iterable[Condition]) -> list[str]:
    """Return the fields of :attr:`Condition.operands` that have another value than the default in some condition.

    >>> runs = [RunConfig("graph", "full", 9), RunConfig("graph", "CR:4-8", 9, grid="mx")]
    >>> operands_used(run.condition for run in runs)
    ['grid']
    """
    distinct = set(conditions)
    names = (*OPERAND_OVERRIDES, *OF_RECIPE)
    return [name for name in names if any(getattr(each, name) != DEFAULTS[name] for each in distinct)]
