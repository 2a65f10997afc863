"""What was measured along training, as a mean over the seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.report.facts import runs_of, shown
from bitcycle._study.report.scale import span
from bitcycle.experiments.result import RunResult

MOST_POINTS = 240  # a line on a page has no room for more
USUAL = ("step", "bits", "loss", "validation")

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """A setting's course."""

    setting: Setting
    points: Points
    """Steps and means."""


def mean_course(records: Sequence[RunResult], key: str) -> Points:
    """The mean over seeds at the steps that all of them have; what is not finite is left out.

    >>> from bitcycle.experiments.run_config import Run
    >>> run = RunConfig("graph", "CR:3-8:cycles=8", 150)
    >>> def record(*values):
    ...     curve = [{"step": i, "validation": value} for i, value in enumerate(values)]
    ...     return RunResult(run, "accuracy", True, 0.9, 0.9, 0, 1, 1.0, curve=curve)
    >>> mean_course([record(0.0, 0.5), record(0.5, 1.0)], "validation")
    [(0.0, 0.25), (1.0, 0.75)]
    """
    courses = [{entry["step"]: entry[key] for entry in record.curve if key in entry} for record in records]
    courses = [course for course in courses if course]
    if not courses:
        return []
    shared = sorted(set(courses[0]).intersection(*courses[1:]))
    means = [(float(step), sum(course[step] for course in courses) / len(courses)) for step in shared]
    finite = [(step, mean) for step, mean in means if math.isfinite(mean)]
    return finite[:: 1 + len(finite) // MOST_POINTS]


def lines_of(analysis: Analysis, records: Sequence[RunResult], key: str) -> list[Line]:
    """The courses of all settings that have one; settings that diverged are left out."""
    lines = [Line(setting, mean_course(runs_of(setting, records), key)) for setting in shown(analysis)]
    return [line for line in lines if len(line.points) > 1]


def measurements_of(analysis: Analysis, records: Sequence[RunResult]) -> list[str]:
    """What else was measured along training, in the order of the alphabet."""
    mine = (record for setting in shown(analysis) for record in runs_of(setting, records))
    return sorted({key for record in mine for entry in record.curve for key in entry} - set(USUAL))


def window(lines: Iterable[Line]) -> tuple[float, float]:
    """The values worth showing: those after the first third, and all if the start is not far off.

    A perplexity starts at some hundreds and ends near eighty: drawn whole, all curves would lie on one line.
    """
    points = [(step, value) for line in lines for step, value in line.points]
    last = max((step for step, _ in points), default=1.0)
    everything = span(value for _, value in points)
    settled = span(value for step, value in points if step >= last / 3)
    return everything if everything[1] - everything[0] < 2.5 * (settled[1] - settled[0]) else settled


def logarithmic(lines: Iterable[Line]) -> bool:
    """Whether values span so many powers of ten that only their logarithm can be read."""
    values = [value for line in lines for _, value in line.points]
    return bool(values) and min(values) > 0 and max(values) > 300 * min(values)
