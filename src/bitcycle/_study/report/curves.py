"""What was recorded along training, as means over the seeds. The curves of single runs are not kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from bitcycle.experiments.result import RunResult
from bitcycle.experiments.run_config import RunConfig

MOST_POINTS = 240  # a line on a page has no room for more
NOT_DRAWN = {"step", "bits", "loss"}
VALIDATION = "validation"

Points = list[tuple[float, float]]


class _Sum:
    """The sum of one quantity over runs, at each step."""

    def __init__(self) -> None:
        self.runs = 0
        self.at: dict[float, list[float]] = {}  # step -> sum and number of runs


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
        self._sums: dict[RunConfig, dict[str, _Sum]] = {run.setting: {} for run in settings}
        for record in records:
            sums = self._sums.get(record.run.setting)
            if sums is not None:
                self._add(record, sums)

    @staticmethod
    def _add(record: RunResult, sums: dict[str, _Sum]) -> None:
        values: dict[str, dict[float, float]] = {}
        for entry in record.curve:
            for name in entry.keys() - NOT_DRAWN:
                values.setdefault(name, {})[entry["step"]] = entry[name]
        for name, by_step in values.items():
            total = sums.setdefault(name, _Sum())
            total.runs += 1
            for step, value in by_step.items():
                at = total.at.setdefault(step, [0.0, 0])
                at[0] += value
                at[1] += 1

    def names(self, settings: Iterable[RunConfig]) -> set[str]:
        """Return the names of the diagnostics that were taken for any of the settings."""
        return {name for run in settings for name in self._sums.get(run.setting, {})} - {VALIDATION}

    def mean(self, setting: RunConfig, name: str) -> Points:
        """Return the mean over seeds at the steps that all of them have; values that are not finite are left out."""
        total = self._sums.get(setting.setting, {}).get(name)
        if total is None:
            return []
        shared = ((step, value / runs) for step, (value, runs) in sorted(total.at.items()) if runs == total.runs)
        finite = [(float(step), mean) for step, mean in shared if math.isfinite(mean)]
        return finite[:: 1 + len(finite) // MOST_POINTS]


def settled_values(curves: Sequence[Points]) -> list[float]:
    """Return the values worth showing: those after the first third, or all if the start is not far off.

    A perplexity starts at some hundreds and ends near eighty: drawn in full, all curves would coincide.
    """
    points = [point for curve in curves for point in curve]
    last = max((step for step, _ in points), default=1.0)
    everything = [value for _, value in points]
    settled = [value for step, value in points if step >= last / 3]
    if settled and max(everything) - min(everything) >= 2.5 * (max(settled) - min(settled)):
        return settled
    return everything
