"""A run: everything that decides the result of one training, and the name that follows from it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class RunConfig:
    """One training of a task under one schedule and one seed.

    >>> run = RunConfig("graph", "CR:3-8:cycles=8", 150, options={"aggregation": "quantized"})
    >>> run == RunConfig.from_dict(run.as_dict()), len(run.name)
    (True, 16)
    >>> run.name == RunConfig("graph", "CR:3-8:cycles=8", 150).name
    False
    """

    task: str
    schedule: str
    """A spec."""
    steps: int
    seed: int = 0
    backward_bits: int | str | None = "max"
    model: str = ""
    """One of the task's models; its first if empty."""
    data: str = ""
    """A folder with official data or the name of a data set; the embedded data if empty."""
    batch_size: int = 0
    """0: the task's own."""
    autocast: bool = False
    """Sums and everything else in bfloat16."""
    compiled: bool = False
    """By ``torch.compile``, which rounds sums in another order."""
    test_weights: str = "best"
    """Which weights are tested: those that did ``best`` on validation, or the ``last``."""
    diagnostics: bool = False
    """Whether the curve holds measurements of the optimisation, see :mod:`bitcycle.experiments.diagnostics`."""
    learning_rate: str = ""
    """A policy of :mod:`bitcycle.experiments.learning_rate`; the task's own learning-rate schedule if empty."""
    options: Any = ()
    """The task's own options, given as a mapping, kept as sorted pairs of names and values."""

    def __post_init__(self) -> None:
        if self.test_weights not in ("best", "last"):
            raise ValueError(f"a run keeps its 'best' or its 'last' weights, not {self.test_weights!r}")
        if self.batch_size < 0:
            raise ValueError(f"batch_size is 1 or more, or 0 for the task's own, not {self.batch_size}")
        pairs = self.options.items() if hasattr(self.options, "items") else self.options
        object.__setattr__(self, "options", tuple(sorted((str(key), str(value)) for key, value in pairs)))

    @property
    def name(self) -> str:
        """A hash of the content: the same for equal runs, another for any other.

        What is as by default is left out, so that runs keep their names when a field is added one day.
        """
        default = {field.name: field.default for field in fields(self)} | {"options": {}}
        said = {name: value for name, value in self.as_dict().items() if value != default[name]}
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def setting(self) -> RunConfig:
        """The run without its seed: runs of one setting differ by chance alone."""
        return replace(self, seed=0)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for files."""
        return {**asdict(self), "options": dict(self.options)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """The run of which these are the values."""
        known = {field.name for field in fields(cls)}
        if set(values) - known:
            raise ValueError(f"a run has no {', '.join(sorted(set(values) - known))}")
        return cls(**values)


_RENAMED = {"keep": "test_weights", "measured": "diagnostics", "rate": "learning_rate"}
"""Fields of version 0.1 and what they are called now."""


def upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a run written by version 0.1 under the field names of this version.

    >>> upgraded({"task": "image", "keep": "last"})
    {'task': 'image', 'test_weights': 'last'}
    """
    return {_RENAMED.get(key, key): value for key, value in values.items()}
