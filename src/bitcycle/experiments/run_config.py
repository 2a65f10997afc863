"""The configuration of a run: everything that determines its result, and the name that follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cached_property
from operator import attrgetter
from typing import Any

from bitcycle.schedules import OperandSchedules


class WeightChoice(StrEnum):
    """Which weights of a run are tested."""

    BEST = "best"
    """The weights with the best validation metric; of equally good ones, the latest."""
    LAST = "last"
    """The weights after the last step."""


_WEIGHT_CHOICES = tuple(WeightChoice)


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

    task: str
    """The name of a registered task."""
    schedule: str
    """The precision schedule as a spec, such as ``CR:3-8:cycles=8``."""
    steps: int
    """Number of training steps."""
    seed: int = 0
    """Random seed of the initial weights, the batches, dropout and stochastic rounding."""
    backward_bits: int | str | None = "max"
    """Bit-width of gradients: ``"max"`` is the largest integer width of the operands, and full precision where they
    are; ``None`` is full precision; a schedule as a spec."""
    model: str = ""
    """One of the task's models; the first of them if empty."""
    data: str = ""
    """A folder with official data or the name of an official data set; the embedded data if empty."""
    batch_size: int = 0
    """Samples per step; 0 = the task's default."""
    autocast: bool = False
    """Whether everything that is not quantised is computed in bfloat16."""
    compiled: bool = False
    """Whether the model is compiled by ``torch.compile``, which changes the order of floating-point sums."""
    test_weights: WeightChoice | str = WeightChoice.BEST
    """Which weights are tested: ``"best"`` on the validation set, or ``"last"``."""
    diagnostics: bool = False
    """Whether the curve also holds the measurements of :mod:`bitcycle.experiments.diagnostics`."""
    learning_rate: str = ""
    """A policy of :mod:`bitcycle.experiments.learning_rate`; the task's learning-rate schedule unchanged if empty."""
    weights: str = ""
    """The schedule of weights as a spec; that of the run if empty."""
    activations: str = ""
    """The schedule of activations as a spec; that of the run if empty."""
    strength: str = ""
    """The strength as a spec; full strength if empty."""
    grid: str = "integer"
    """What a width means: a grid of :mod:`bitcycle.grids`."""
    evaluate_at: str = "max"
    """The width of validation and testing: ``"max"`` is the schedule's largest; ``"current"`` is that of the step."""
    options: Any = ()
    """The task's own options: given as a mapping, stored as sorted pairs of strings."""
    source: str = ""
    """The digest of the source of a user's task, see :mod:`bitcycle.experiments.user_code`; empty if it is built in."""
    fingerprint: str = ""
    """The fingerprint of the folder or file in ``data``, see :mod:`bitcycle.experiments.data.fingerprints`."""

    def __post_init__(self) -> None:
        if self.test_weights not in _WEIGHT_CHOICES:
            raise ValueError(f"test_weights must be 'best' or 'last', got {self.test_weights!r}")
        if self.evaluate_at not in ("max", "current"):
            raise ValueError(f"evaluate_at must be 'max' or 'current', got {self.evaluate_at!r}")
        if self.batch_size < 0:
            raise ValueError(f"batch_size must be 1 or more, or 0 for the task's default, got {self.batch_size}")
        pairs = self.options.items() if hasattr(self.options, "items") else self.options
        if type(self.test_weights) is not WeightChoice:
            object.__setattr__(self, "test_weights", WeightChoice(self.test_weights))
        ordered = tuple(sorted((str(key), str(value)) for key, value in pairs)) if pairs else ()
        object.__setattr__(self, "options", ordered)

    @cached_property
    def name(self) -> str:
        """A hash of the content: equal for equal runs, different for different ones.

        Fields that have their default value are left out of the hash, so that a new field does not change the names of
        existing runs.
        """
        content = {name: value for name, value in self.as_dict().items() if value != _DEFAULTS[name]}
        if self.fingerprint:
            content.pop("data", None)
        return hashlib.sha256(_ENCODER.encode(content).encode()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunConfig):
            return NotImplemented
        return _OTHER_THAN_DATA(self) == _OTHER_THAN_DATA(other) and (bool(self.fingerprint) or self.data == other.data)

    def __hash__(self) -> int:
        return hash(_OTHER_THAN_DATA(self))

    @property
    def schedules(self) -> OperandSchedules:
        """The schedules of everything that moves."""
        return OperandSchedules.of(
            self.schedule, self.backward_bits, self.weights or None, self.activations or None, self.strength or None
        )

    @property
    def operands(self) -> dict[str, str]:
        """What moves apart from the schedule, and what a width means, by field, with the defaults written out.

        >>> RunConfig("graph", "static:4", 150, activations="static:8").operands
        {'weights': 'static:4', 'activations': 'static:8', 'strength': '1', 'grid': 'integer', 'evaluate_at': 'max'}
        """
        return {
            "weights": self.weights or self.schedule,
            "activations": self.activations or self.schedule,
            "strength": self.strength or "1",
            "grid": self.grid,
            "evaluate_at": self.evaluate_at,
        }

    @property
    def description(self) -> str:
        """The schedule of the run, its grid if it is not the default one, and what moves apart from the schedule."""
        at = "" if self.evaluate_at == "max" else self.evaluate_at
        moves = {"W": self.weights, "A": self.activations, "strength": self.strength, "evaluated at": at}
        grid = [] if self.grid == "integer" else [self.grid]
        return " ".join([self.schedule, *grid, *(f"{name} {spec}" for name, spec in moves.items() if spec)])

    @property
    def setting(self) -> RunConfig:
        """The run with seed 0. Runs of the same setting differ only by their random seed."""
        return self.with_seed(0)

    def with_seed(self, seed: int) -> RunConfig:
        """Return the run with another seed; much faster than a new run, because a study may have many thousand seeds.

        >>> RunConfig("graph", "static:4", 150).with_seed(3) == RunConfig("graph", "static:4", 150, seed=3)
        True
        """
        _ = self._plain_setting  # once for all seeds
        values = vars(self).copy()
        values.pop("name", None)
        values["seed"] = seed
        run = object.__new__(RunConfig)
        object.__setattr__(run, "__dict__", values)
        return run

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, for files, without the newer ones where they have their default."""
        return {**self._plain_setting, "seed": self.seed, "options": dict(self.options)}

    @cached_property
    def _plain_setting(self) -> dict[str, Any]:
        """The fields as plain values; those of :meth:`with_seed` share it, so its seed may be that of another run."""
        values = dict(zip(_DEFAULTS, _FIELDS(self), strict=True))
        for name in _NEWER:
            if values[name] == _DEFAULTS[name]:
                del values[name]
        values["test_weights"] = str(self.test_weights)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """Return the run with these values, as :meth:`as_dict` gives them.

        Raises:
            ValueError: If a key is not a field of a run, or the task, the schedule or the number of steps is missing.
        """
        if not values.keys() <= _DEFAULTS.keys():
            raise ValueError(f"a run has no field {', '.join(sorted(values.keys() - _DEFAULTS.keys()))}")
        if not values.keys() >= _REQUIRED:
            raise ValueError(f"a run must have a {' and a '.join(sorted(_REQUIRED - values.keys()))}")
        return cls(**values)


_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(RunConfig)} | {"options": {}}
_NEWER = ("weights", "activations", "strength", "grid", "evaluate_at")
_REQUIRED = {name for name, default in _DEFAULTS.items() if default is MISSING}
_FIELDS = attrgetter(*_DEFAULTS)
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))  # of what a name is the hash of
_OTHER_THAN_SEED = attrgetter(*(name for name in _DEFAULTS if name != "seed"))
_OTHER_THAN_DATA = attrgetter(*(name for name in _DEFAULTS if name != "data"))


def operands_used(runs: Iterable[RunConfig]) -> list[str]:
    """Return the fields of :attr:`RunConfig.operands` that have another value than the default in some run.

    >>> operands_used([RunConfig("graph", "full", 9), RunConfig("graph", "CR:4-8", 9, grid="mx")])
    ['grid']
    """
    used = zip(*set(map(attrgetter(*_NEWER), runs)), strict=True)
    return [name for name, values in zip(_NEWER, used, strict=False) if set(values) != {_DEFAULTS[name]}]


def grouped_by_setting(runs: Iterable[RunConfig]) -> list[list[RunConfig]]:
    """Return the runs in groups that differ only by their seeds, in the order in which the groups begin.

    Much faster than a comparison of :attr:`RunConfig.setting`, because a plan may have many thousand runs.

    Example:
        >>> runs = [RunConfig("graph", spec, 9, seed) for seed in (1, 2) for spec in ("full", "static:8")]
        >>> [[(run.schedule, run.seed) for run in group] for group in grouped_by_setting(runs)]
        [[('full', 1), ('full', 2)], [('static:8', 1), ('static:8', 2)]]
    """
    groups: dict[tuple[Any, ...], list[RunConfig]] = {}
    for run in runs:
        groups.setdefault(_OTHER_THAN_SEED(run), []).append(run)
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
    values = {key: before.get(key, _DEFAULTS.get(key)) for key in sorted(now)}
    ignored = "data" if now.get("fingerprint") else None
    return {key: value for key, value in values.items() if value != now[key] and key != ignored}


_RENAMED_SINCE_VERSION_1 = {"keep": "test_weights", "measured": "diagnostics", "rate": "learning_rate"}


def upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a run with the field names of this version.

    bitcycle 0.1 wrote runs with the fields ``keep``, ``measured`` and ``rate``, and quantised the activations of
    language and entailment models per tensor, which is an option now. Values of this version are returned unchanged.

    Args:
        values: A run as a dictionary, from a store or a checkpoint.

    Returns:
        A new dictionary that :meth:`RunConfig.from_dict` takes.

    Example:
        >>> upgraded({"task": "graph", "keep": "last", "measured": True, "rate": "hold@0..10"})
        {'task': 'graph', 'test_weights': 'last', 'diagnostics': True, 'learning_rate': 'hold@0..10'}
    """
    present = {_RENAMED_SINCE_VERSION_1.get(name, name): value for name, value in values.items()}
    is_old = values.keys() & _RENAMED_SINCE_VERSION_1.keys()
    if is_old and values.get("task") in ("language", "entailment"):
        present["options"] = {**dict(values.get("options", {})), "activations": "tensor"}
    return present
