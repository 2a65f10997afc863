"""What came of a run: its result, or the error that ended it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bitcycle.experiments.run_config import RunConfig
from bitcycle.schedules import Schedule, schedule


@dataclass(frozen=True)
class RunResult:
    """The result of a finished run, as training returns it and as the store keeps it."""

    run: RunConfig
    metric: str
    higher_is_better: bool
    test: float
    """The metric on the test set, evaluated once, with the weights that the run configuration chooses."""
    validation: float
    best_step: int
    bitops: int
    """The metered training cost."""
    seconds: float
    extra: dict[str, float] = field(default_factory=dict)
    """Further metrics on the test set."""
    curve: list[dict[str, float]] = field(default_factory=list, compare=False)
    """At each evaluation: step, bits (32 for full precision), training loss (mean since the last evaluation),
    validation metric, and diagnostics where they were taken."""
    versions: dict[str, str] = field(default_factory=dict, compare=False)
    """Versions of bitcycle, torch and Python, and whatever else affects the last digits of a result."""

    @property
    def question(self) -> RunConfig:
        """The run without its seed and its schedule: runs with the same question can be compared."""
        return replace(self.run.setting, schedule="", backward_bits="max", learning_rate="")

    @property
    def schedule(self) -> Schedule:
        """The schedule itself."""
        return schedule(self.run.schedule)

    def as_dict(self) -> dict[str, Any]:
        """All fields as plain values, for a results file."""
        return {**asdict(self), "run": self.run.as_dict()}


@dataclass(frozen=True)
class RunFailure:
    """A run that ended in an error."""

    run: RunConfig
    traceback: str

    @property
    def reason(self) -> str:
        """The last line of the traceback."""
        return self.traceback.strip().rpartition("\n")[2]
