"""What a report tells about the study itself, beside its figures."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class StudyInfo:
    """How a study was run, and how to run it again.

    >>> StudyInfo("digits", "bitcycle study image", planned=39, done=31).finished
    False
    """

    name: str
    command: str
    """The exact command line that makes the study again."""
    planned: int
    """The number of runs."""
    done: int
    failed: list[tuple[str, int, str]] = field(default_factory=list)
    """The label, the seed and the last line of the traceback of each run that failed."""
    versions: dict[str, str] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    started: str = ""
    """When the first run began, in ISO format."""
    ended: str = ""
    seconds: float = 0.0
    """Of all runs together."""
    workers: int = 1
    plan: str = ""
    """The plan as TOML text, if there was one."""

    @property
    def finished(self) -> bool:
        """Whether all planned runs are done."""
        return self.done >= self.planned
