"""What a report says about the study itself."""

from __future__ import annotations

from dataclasses import dataclass, field

FailedRun = tuple[str, int, str]
"""The schedule, the seed and the last line of the traceback."""


@dataclass(frozen=True)
class StudyInfo:
    """How a study was run, and how to run it again.

    >>> StudyInfo("digits", "bitcycle study image", planned=39, done=31).finished
    False
    """

    name: str
    command: str
    """The command line that repeats the study."""
    planned: int
    """The number of runs."""
    done: int
    failed: list[FailedRun] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    started: str = ""
    """When the first run began, in ISO format."""
    ended: str | None = None
    """When the last run ended; None if it is not known."""
    seconds: float = 0.0
    """Total time of all runs."""
    workers: int | None = None
    """None if it is not known."""
    plan: str = ""
    """The plan as TOML text, if there was one."""

    @property
    def finished(self) -> bool:
        """Whether all planned runs are done."""
        return self.done >= self.planned
