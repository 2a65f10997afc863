"""The configuration of a run: everything that determines its result, and the name that follows from it.

The fields of :class:`RunConfig` are declared here and nowhere else. The keys of plan files, the keywords of
:func:`bitcycle.study`, the options of ``bitcycle train``, ``study`` and ``deficit``, the columns of stores and tables,
and what statistics compare are made from them, see :class:`FieldInfo`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import Any

from bitcycle._support.grid_names import GRID_MODULES
from bitcycle.lab.runs import parsing
from bitcycle.schedules.operands import OperandSchedules


class WeightChoice(StrEnum):
    """Which weights of a run are tested."""

    BEST = "best"
    """The weights with the best validation metric; of equally good ones, the latest."""
    LAST = "last"
    """The weights after the last step."""


@dataclass(frozen=True)
class FieldInfo:
    """What is known about a field of a run, beside its name, type and default."""

    help: str
    """What the field sets, for the help of commands and the documentation of ``bitcycle.study``."""
    parse: parsing.Parser = parsing.string
    """Checks a value that a user has written, and returns its canonical form."""
    choices: tuple[str, ...] = ()
    """Values that shell completion proposes."""
    title: str = ""
    """Describes a value that is not the default in the title of a comparison; default: ``NAME VALUE``."""
    is_keyword: bool = True
    """Whether users set it by its name; plans have lists of tasks, schedules and seeds, and find out the sources."""
    is_compared: bool = False
    """Whether statistics compare runs that differ in it. A plan can have several values of such a field."""
    is_detail: bool = False
    """Whether it is left out of titles that differ without it."""
    is_in_name: bool = True
    """Whether it changes the result, and so the name of the run."""
    option: str = ""
    """The option of commands; default: made from the name."""


def about(help: str, parse: parsing.Parser = parsing.string, **further: Any) -> dict[str, FieldInfo]:
    """Return the metadata of a field of a run; see :class:`FieldInfo` for the arguments."""
    return {"info": FieldInfo(help, parse, **further)}


@dataclass(frozen=True, eq=False)
class RunConfig:
    """One training run of a task, with one schedule and one random seed.

    Two runs with equal configurations give equal results, on the same machine with the same versions and threads. Where
    the content of the data is known by its fingerprint, the folder in which it lies makes no difference.

    Raises:
        ValueError: If ``test_weights`` or ``evaluate_at`` is unknown or ``batch_size`` is negative.

    Example:
        >>> run = RunConfig("graph", "CR:3-8:cycles=8", 150, options={"aggregation": "quantized"})
        >>> run == RunConfig.from_dict(run.as_dict()), len(run.name)
        (True, 16)
        >>> run.name == RunConfig("graph", "CR:3-8:cycles=8", 150).name
        False
    """

    task: str = field(metadata=about("The name of a registered task.", title="{}", is_keyword=False))
    schedule: str = field(
        metadata=about("The precision schedule as a spec.", parsing.spec, is_keyword=False, is_compared=True)
    )
    steps: int = field(
        metadata=about("Training steps of a run; default: set by the task.", parsing.integer(1), title="{} steps")
    )
    seed: int = field(
        default=0,
        metadata=about(
            "Random seed of the initial weights, the batches, dropout and stochastic rounding.",
            parsing.integer(0, parsing.MAX_INTEGER),
            is_keyword=False,
        ),
    )
    backward_bits: int | str | None = field(
        default="max",
        metadata=about(
            "Bits of the gradients: a width, 'full', or a schedule; default: q_max; full precision in steps in which "
            "both operands are in full precision.",
            parsing.gradient_bits,
            is_compared=True,
        ),
    )
    model: str = field(default="", metadata=about("A model of the task; default: its first model.", title="model {}"))
    data: str = field(
        default="",
        metadata=about(
            "A folder with official data, or a name from 'bitcycle data list'; default: the embedded data.",
            title="data {}",
        ),
    )
    batch_size: int = field(
        default=0,
        metadata=about("Samples per step; 0 = the task's default.", parsing.integer(0), title="batches of {}"),
    )
    autocast: bool = field(
        default=False,
        metadata=about(
            "Train with autocast: accumulation and all other operations in bfloat16.",
            parsing.flag,
            title="in bfloat16",
        ),
    )
    compiled: bool = field(
        default=False,
        metadata=about(
            "Compile the model with torch.compile, which changes the order of floating-point sums.",
            parsing.flag,
            title="compiled",
            option="--compile",
        ),
    )
    test_weights: WeightChoice | str = field(
        default=WeightChoice.BEST,
        metadata=about(
            "Which weights are tested: the best on the validation set, or the last.",
            parsing.one_of(tuple(WeightChoice)),
            choices=tuple(WeightChoice),
            title="{} weights",
        ),
    )
    diagnostics: bool = field(
        default=False,
        metadata=about(
            "Measure Fisher information, gradient noise and more during training.",
            parsing.flag,
            title="with diagnostics",
            is_detail=True,
        ),
    )
    learning_rate: str = field(
        default="",
        metadata=about(
            "A change of the task's learning-rate schedule, such as hold@0..100 or restart@100.", is_compared=True
        ),
    )
    weights: str = field(
        default="",
        metadata=about("A separate schedule for weights: a spec or a width.", parsing.spec, is_compared=True),
    )
    activations: str = field(
        default="",
        metadata=about("A separate schedule for activations: a spec or a width.", parsing.spec, is_compared=True),
    )
    strength: str = field(
        default="",
        metadata=about(
            "The strength of quantisation, 0 to 1: a number, or a spec such as linear-rise.",
            parsing.strength_spec,
            is_compared=True,
        ),
    )
    grid: str = field(
        default="integer",
        metadata=about(
            f"What a width means: {', '.join(GRID_MODULES)}.",
            choices=tuple(GRID_MODULES),
            is_compared=True,
        ),
    )
    evaluate_at: str = field(
        default="max",
        metadata=about(
            "The width of validation and testing: the max of the schedule, or the current one.",
            parsing.one_of(("max", "current")),
            choices=("max", "current"),
            title="evaluated at {} bits",
        ),
    )
    options: Any = field(
        default=(),
        metadata=about("Options of the task, by name.", parsing.option_values, title="{}", option="--option"),
    )
    source: str = field(
        default="",
        metadata=about(
            "The digest of the source of a user's task.", title="source {}", is_keyword=False, is_detail=True
        ),
    )
    fingerprint: str = field(
        default="",
        metadata=about("The fingerprint of the data.", title="data fingerprint {}", is_keyword=False, is_detail=True),
    )

    def __post_init__(self) -> None:
        for name in ("test_weights", "evaluate_at"):
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
        values = {name: getattr(self, name) for name in _COMMON}
        if self.fingerprint:  # the same data may be in several folders
            values["data"] = ""
        return ComparisonGroup(tuple(values.values()), self.data)

    @cached_property
    def condition(self) -> Condition:
        """The run but for its seed."""
        return Condition(self.group, **{name: getattr(self, name) for name in COMPARED})

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
            ValueError: If a key is not a field of a run, or the task, the schedule or the number of steps is missing.
        """
        if unknown := sorted(values.keys() - FIELDS.keys()):
            raise ValueError(f"a run has no field {', '.join(unknown)}")
        if missing := sorted(name for name in FIELDS.keys() - values.keys() if DEFAULTS[name] is MISSING):
            raise ValueError(f"a run must have a {' and a '.join(missing)}")
        return cls(**values)


def _info(field: Field[Any]) -> FieldInfo:
    info: FieldInfo = field.metadata["info"]
    return info


FIELDS = {field.name: _info(field) for field in fields(RunConfig)}
"""What is known about each field of a run."""
DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(RunConfig)}
"""The default of each field; ``MISSING`` for those that every run must have."""
KEYWORDS = {name: info for name, info in FIELDS.items() if info.is_keyword}
"""The fields that users set by their names."""
COMPARED = tuple(name for name, info in FIELDS.items() if info.is_compared)
"""The fields in which the runs of a comparison differ, beside the seed."""
_COMMON = tuple(name for name in FIELDS if name not in (*COMPARED, "seed"))
OPERAND_OVERRIDES = ("weights", "activations", "strength")
"""The fields that replace the schedule of a run for one operand, and its strength."""


@dataclass(frozen=True)
class ComparisonGroup:
    """What runs must have in common so that their results can be compared: all fields but the compared ones.

    >>> RunConfig("graph", "full", 150, model="gcn", options={"aggregation": "quantized"}).group.title
    'graph, model gcn, 150 steps, aggregation=quantized'
    """

    values: tuple[Any, ...]
    """The values of the common fields. That of the data is empty if its fingerprint is known."""
    data: str = field(default="", compare=False)

    def __getitem__(self, name: str) -> Any:
        """Return the value of a field by its name."""
        return self.data if name == "data" else self.values[_COMMON.index(name)]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, for files."""
        return {name: _plain(self[name]) for name in _COMMON}

    @property
    def task(self) -> str:
        """The name of the task."""
        return str(self["task"])

    @property
    def steps(self) -> int:
        """Training steps of a run."""
        return int(self["steps"])

    @property
    def title(self) -> str:
        """The group in one line, without what seldom differs."""
        first = ("task", "model", "data", "steps", "batch_size", "options")
        ordered = (*first, *(name for name in _COMMON if name not in first))
        return ", ".join(self._described(name for name in ordered if not FIELDS[name].is_detail))

    @property
    def details(self) -> list[str]:
        """What seldom differs, where it is not the default."""
        return self._described(name for name in _COMMON if FIELDS[name].is_detail)

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

    >>> condition = RunConfig("graph", "static:4", 150, seed=7, activations="static:8").condition
    >>> condition == RunConfig("graph", "static:4", 150, seed=8, activations="static:8").condition
    True
    >>> condition.description
    'static:4 A static:8'
    """

    group: ComparisonGroup
    schedule: str
    backward_bits: int | str | None
    learning_rate: str
    weights: str
    activations: str
    strength: str
    grid: str

    def __getitem__(self, name: str) -> Any:
        """Return the value of a field of the runs by its name."""
        return getattr(self, name) if name in COMPARED else self.group[name]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the runs but for their seeds, as plain values for files."""
        return {name: _plain(self[name]) for name in FIELDS if name != "seed"}

    @cached_property
    def name(self) -> str:
        """A hash of the content."""
        return _name({name: self[name] for name in FIELDS if name != "seed"})

    @property
    def steps(self) -> int:
        """Training steps of a run."""
        return self.group.steps

    @property
    def schedules(self) -> OperandSchedules:
        """The schedules of weights, activations, gradients and strength."""
        overrides: dict[str, Any] = {name: getattr(self, name) or None for name in OPERAND_OVERRIDES}
        return OperandSchedules.of(self.schedule, self.backward_bits, **overrides)

    @property
    def has_overrides(self) -> bool:
        """Whether weights, activations or the strength do not follow the schedule."""
        return any(getattr(self, name) for name in OPERAND_OVERRIDES)

    @property
    def operands(self) -> dict[str, str]:
        """What each operand follows and how it is rounded and evaluated, with the defaults written out.

        >>> RunConfig("graph", "static:4", 150, activations="static:8").condition.operands
        {'weights': 'static:4', 'activations': 'static:8', 'strength': '1', 'grid': 'integer', 'evaluate_at': 'max'}
        """
        return {
            "weights": self.weights or self.schedule,
            "activations": self.activations or self.schedule,
            "strength": self.strength or "1",
            "grid": self.grid,
            "evaluate_at": self.group["evaluate_at"],
        }

    @property
    def description(self) -> str:
        """The schedule, with the grid and the schedules of single operands if they are not the default."""
        at = "" if self.group["evaluate_at"] == DEFAULTS["evaluate_at"] else self.group["evaluate_at"]
        grid = "" if self.grid == DEFAULTS["grid"] else self.grid
        labelled = {"W": self.weights, "A": self.activations, "strength": self.strength, "evaluated at": at}
        parts = [self.schedule, grid, *(f"{label} {text}" for label, text in labelled.items() if text)]
        return " ".join(part for part in parts if part)


def _name(values: Mapping[str, Any]) -> str:
    """Return the name of a run, or of a condition, which is that of its run with the default seed."""
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
    names = (*OPERAND_OVERRIDES, "grid", "evaluate_at")
    return [name for name in names if any(condition[name] != DEFAULTS[name] for condition in distinct)]


def grouped_by_condition(runs: Iterable[RunConfig]) -> list[list[RunConfig]]:
    """Return the runs in groups that differ only by their seeds, in the order in which the groups begin.

    Example:
        >>> runs = [RunConfig("graph", spec, 9, seed) for seed in (1, 2) for spec in ("full", "static:8")]
        >>> [[(run.schedule, run.seed) for run in group] for group in grouped_by_condition(runs)]
        [[('full', 1), ('full', 2)], [('static:8', 1), ('static:8', 2)]]
    """
    groups: dict[Condition, list[RunConfig]] = {}
    for run in runs:
        groups.setdefault(run.condition, []).append(run)
    return list(groups.values())


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of one run, as a dictionary, that another run does not have.

    Args:
        before: A run as a dictionary, from a checkpoint. A field that is younger than the checkpoint has its default.
        now: The other run.

    Returns:
        The values before, by field. The folder of the data is not compared if its fingerprint is known.

    Example:
        >>> before, now = RunConfig("graph", "full", 9, seed=1).as_dict(), RunConfig("graph", "full", 9).as_dict()
        >>> del before["source"]
        >>> differences(before, now)
        {'seed': 1}
    """
    values = {key: before.get(key, _plain(DEFAULTS.get(key))) for key in sorted(now)}
    ignored = "data" if now.get("fingerprint") else None
    return {key: value for key, value in values.items() if value != now[key] and key != ignored}
