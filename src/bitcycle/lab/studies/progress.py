"""The progress of a study in words."""

from __future__ import annotations

import sys

from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.studies.driver import StudyProgress


def status(now: StudyProgress) -> str:
    """Say how many runs are done.

    >>> status(StudyProgress(10, 1000, done=4, failed=1, done_before=2))
    '4 of 10 runs done (2 before), 1 failed'
    """
    before = f" ({now.done_before} before)" if now.done_before else ""
    failed = f", {now.failed} failed" if now.failed else ""
    return f"{now.done} of {now.planned_runs} runs done{before}{failed}"


class EndedRuns:
    """One line for each run that ends."""

    def __init__(self) -> None:
        self._latest: object = None

    def line(self, now: StudyProgress) -> str | None:
        """Return the line of the run that ended last, unless it was returned before."""
        if now.latest is None or now.latest is self._latest:
            return None
        self._latest = now.latest
        run = now.latest.run
        outcome = f"{now.latest.test:.4f}" if isinstance(now.latest, RunResult) else "failed"
        return f"{now.done + now.failed:>4}/{now.planned_runs}  {run.task} {run.description} seed {run.seed}: {outcome}"

    def print(self, now: StudyProgress) -> None:
        """Print the line to stderr."""
        if (line := self.line(now)) is not None:
            print(line, file=sys.stderr, flush=True)
