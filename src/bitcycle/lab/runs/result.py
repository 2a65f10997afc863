"""The outcome of a run: its result, or the error that ended it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.schedules import Schedule, schedule

TEST_LOSS = "test loss"
"""The name of the mean loss on the test set among the further metrics. Stored results have it: do not change it."""

_MODULE = re.compile(r"(?:\w+\.)+(?=[A-Z]\w*(?::|$))")
"""The module before the class of an exception."""


class Diagnostic(StrEnum):
    """The measurements of :mod:`bitcycle.lab.runs.diagnostics`, by their names in a curve.

    Stored curves have these names: do not change them.
    """

    FISHER_INFORMATION = "Fisher information"
    GRADIENT_OVER_NOISE = "gradient over noise"
    GRADIENT_DIVERSITY = "gradient diversity"
    GRADIENT_AFTER_CHANGE = "gradient after a change of bits"
    UPDATE_AFTER_CHANGE = "update after a change of bits"


@dataclass(frozen=True)
class RunResult:
    """The result of a finished run, as training returns it and as the store keeps it."""

    run: RunConfig
    metric: str
    """The name of the task's metric."""
    higher_is_better: bool
    """Whether a higher value of the metric is better."""
    test: float
    """The metric on the test set, evaluated once, with the weights that the run configuration chooses."""
    validation: float
    """The metric on the validation set with the same weights."""
    best_step: int
    """The step after which these weights were saved."""
    bitops: int
    """The metered training cost."""
    seconds: float
    """Time of the run, over all its resumptions."""
    extra: dict[str, float] = field(default_factory=dict)
    """Further metrics on the test set."""
    curve: list[dict[str, float]] = field(default_factory=list, compare=False)
    """At each evaluation: ``step``, ``bits`` (32 for full precision), ``loss`` (mean training loss since the previous
    evaluation), ``validation`` (the metric), and the values of each :class:`Diagnostic` that was measured."""
    versions: dict[str, str] = field(default_factory=dict, compare=False)
    """Versions of bitcycle, torch and Python, and everything else that affects the last digits of a result."""
    example_losses: NDArray[np.float32] | None = field(default=None, compare=False, repr=False)
    """The loss of each example of the test set, whose mean is ``extra["test loss"]``; None if the task has none, and
    in results that are read from a store, which gives them on request."""

    @property
    def schedule(self) -> Schedule:
        """The precision schedule."""
        return schedule(self.run.schedule)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields but the losses of examples as plain values, for a results file."""
        values = asdict(replace(self, example_losses=None))
        del values["example_losses"]
        return {**values, "run": self.run.as_dict()}


@dataclass(frozen=True)
class RunFailure:
    """A run that ended in an error."""

    run: RunConfig
    traceback: str

    @property
    def reason(self) -> str:
        """The last line of the traceback, without the module of the exception.

        >>> RunFailure(RunConfig("image", "CR", 9), "Traceback ...\\nmy.module.DataError: no images").reason
        'DataError: no images'
        """
        line = self.traceback.strip().rpartition("\n")[2]
        module = _MODULE.match(line)
        return line[module.end() :] if module else line
