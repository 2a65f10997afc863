"""What a finished run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bitcycle.runs import Run
from bitcycle.schedules import Schedule, schedule


@dataclass(frozen=True)
class Record:
    """A finished run, as the store keeps it."""

    run: Run
    metric: str
    higher_is_better: bool
    test: float
    """The metric on the test part, looked at once."""
    validation: float
    best_step: int
    bitops: int
    """The training's cost, as metered."""
    seconds: float
    extra: dict[str, float] = field(default_factory=dict)
    """Further metrics of the test part."""
    curve: list[dict[str, float]] = field(default_factory=list, compare=False)
    """At each evaluation: step, bits (32 for full precision), loss (training, mean since the last), validation; and
    measurements of the optimisation where they were taken."""
    versions: dict[str, str] = field(default_factory=dict, compare=False)
    """Of bitcycle, torch, Python, and what else decides the last bits of a figure."""

    @property
    def question(self) -> Run:
        """The run without its seed and its schedule: settings that answer one question can be compared."""
        return replace(self.run.setting, schedule="", backward_bits="max", rate="")

    @property
    def schedule(self) -> Schedule:
        """The schedule itself."""
        return schedule(self.run.schedule)


@dataclass(frozen=True)
class Failure:
    """A run that ended in an error."""

    run: Run
    traceback: str

    @property
    def reason(self) -> str:
        """The last line of the traceback."""
        return self.traceback.strip().rpartition("\n")[2]
