"""What was recorded during training, as means over the seeds. The curves of single runs are not kept."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from bitcycle.experiments.result import RunResult
from bitcycle.experiments.run_config import RunConfig

MOST_POINTS = 240  # a line on a page has no room for more
NOT_DRAWN = {"step", "bits", "loss"}
VALIDATION = "validation"

Points = list[tuple[float, float]]


class Curves:
    """Means over seeds for the settings that a report draws, from records that are read once.

    >>> run = RunConfig("graph", "CR:3-8:cycles=8", 150)
    >>> def record(*values):
    ...     curve = [{"step": i, "validation": value} for i, value in enumerate(values)]
    ...     return RunResult(run, "accuracy", True, 0.9, 0.9, 0, 1, 1.0, curve=curve)
    >>> Curves([record(0.0, 0.5), record(0.5, 1.0)], [run]).mean(run, "validation")
    [(0.0, 0.25), (1.0, 0.75)]
    """

    def __init__(self, records: Iterable[RunResult], settings: Iterable[RunConfig]) -> None:
        self._wanted = {run.setting for run in settings}
        self._runs: Counter[tuple[RunConfig, str]] = Counter()
        self._sums: dict[tuple[RunConfig, str], dict[float, tuple[float, int]]] = {}  # step -> sum, number of runs
        for record in records:
            if record.run.setting in self._wanted:
                self._add(record)

    def _add(self, record: RunResult) -> None:
        names = {name for entry in record.curve for name in entry} - NOT_DRAWN
        for name in names:
            key = (record.run.setting, name)
            self._runs[key] += 1
            sums = self._sums.setdefault(key, {})
            for step, value in {entry["step"]: entry[name] for entry in record.curve if name in entry}.items():
                total, runs = sums.get(step, (0.0, 0))
                sums[step] = (total + value, runs + 1)

    def names(self, settings: Iterable[RunConfig]) -> set[str]:
        """Return the names of the diagnostics that were taken for any of the settings."""
        wanted = {run.setting for run in settings}
        return {name for setting, name in self._sums if setting in wanted} - {VALIDATION}

    def mean(self, run: RunConfig, name: str) -> Points:
        """Return the mean over seeds at the steps that all of them have; values that are not finite are left out."""
        key = (run.setting, name)
        sums = sorted(self._sums.get(key, {}).items())
        shared = [(float(step), total / runs) for step, (total, runs) in sums if runs == self._runs[key]]
        finite = [(step, mean) for step, mean in shared if math.isfinite(mean)]
        return finite[:: 1 + len(finite) // MOST_POINTS]
