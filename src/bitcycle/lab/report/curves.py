"""What was recorded during training, as means over the seeds. The curves of single runs are not kept."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.runs.run_config import Condition

MAX_POINTS = 160  # a line on a page has no room for more
NOT_DRAWN = {"step", "bits", "loss"}
VALIDATION = "validation"

Points = list[tuple[float, float]]


class Curves:
    """Means over seeds for the conditions that a report draws, from records that are read once.

    >>> from bitcycle.lab.runs.run_config import RunConfig
    >>> run = RunConfig("graph", "CR:3-8:cycles=8", 150)
    >>> def record(*values):
    ...     curve = [{"step": i, "validation": value} for i, value in enumerate(values)]
    ...     return RunResult(run, "accuracy", True, 0.9, 0.9, 0, 1, 1.0, curve=curve)
    >>> Curves([record(0.0, 0.5), record(0.5, 1.0)], [run.condition]).mean(run.condition, "validation")
    [(0.0, 0.25), (1.0, 0.75)]
    """

    def __init__(self, records: Iterable[RunResult], conditions: Iterable[Condition]) -> None:
        self._wanted = set(conditions)
        self._runs: Counter[tuple[Condition, str]] = Counter()
        self._sums: dict[tuple[Condition, str], dict[float, tuple[float, int]]] = {}  # step -> sum, number of runs
        for record in records:
            if record.run.condition in self._wanted:
                self._add(record)

    def _add(self, record: RunResult) -> None:
        names = {name for entry in record.curve for name in entry} - NOT_DRAWN
        for name in names:
            key = (record.run.condition, name)
            self._runs[key] += 1
            sums = self._sums.setdefault(key, {})
            for step, value in {entry["step"]: entry[name] for entry in record.curve if name in entry}.items():
                total, runs = sums.get(step, (0.0, 0))
                sums[step] = (total + value, runs + 1)

    def names(self, conditions: Iterable[Condition]) -> set[str]:
        """Return the names of the diagnostics that were taken for any of the conditions."""
        wanted = set(conditions)
        return {name for condition, name in self._sums if condition in wanted} - {VALIDATION}

    def mean(self, condition: Condition, name: str) -> Points:
        """Return the mean over seeds at the steps that all of them have; values that are not finite are left out."""
        key = (condition, name)
        sums = sorted(self._sums.get(key, {}).items())
        shared = [(float(step), total / runs) for step, (total, runs) in sums if runs == self._runs[key]]
        finite = [(step, mean) for step, mean in shared if math.isfinite(mean)]
        return finite[:: 1 + len(finite) // MAX_POINTS]
