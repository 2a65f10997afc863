"""The measurements along the trainings of a deficit experiment, as means over the seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bitcycle._study.analysis import DeficitAnalysis, DeficitPoint
from bitcycle._study.deficits import Arm, Cell
from bitcycle._study.deficits import Experiment as Kind
from bitcycle._study.report.curve_data import USUAL, Points, mean_course
from bitcycle._study.report.deficits.facts import Experiment, experiments_of, place_words
from bitcycle._study.report.deficits.meanings import MEANINGS
from bitcycle._study.report.deficits.shades import CONTROL, LONG_CONTROL, shades
from bitcycle.experiments.result import RunResult

Found = dict[Cell, list[RunResult]]


@dataclass(frozen=True)
class Trained:
    """The trainings of one length or position, or of a control."""

    key: str
    """What names it within its part of the page."""
    label: str
    short: str
    shade: str
    """The class of its colour."""
    ends: int
    """The step at which its deficit ends; 0 without one."""
    records: list[RunResult]


@dataclass(frozen=True)
class Trainings:
    """The trainings of the experiment that is looked at."""

    experiment: Experiment
    lines: list[Trained]


def trained(analysis: DeficitAnalysis, records: Sequence[RunResult]) -> Trainings | None:
    """The held arm at every length, or every position where there are no lengths, and what they are compared with."""
    found = cells_of(analysis, records)
    for experiment in experiments_of(analysis):
        held = [point for point in experiment.points if point.arm == "held" and _cell(experiment, point) in found]
        if held:
            return Trainings(experiment, _numbered(analysis, experiment, held, found))
    return None


def _numbered(
    analysis: DeficitAnalysis, experiment: Experiment, held: list[DeficitPoint], found: Found
) -> list[Trained]:
    lines = []
    by_length = experiment.name == "length"
    none = Cell(Kind.LENGTH, 0, Arm.LONGER)
    if by_length and none in found:
        lines.append(("no deficit: the normal training", "0", CONTROL, 0, found[none]))
    for point, shade in zip(held, shades(len(held)), strict=True):
        label = f"held, {place_words(analysis, experiment, point)}"
        ends = point.place + (0 if by_length else analysis.window)
        lines.append((label, f"{point.share:.3g}", shade, ends, found[_cell(experiment, point)]))
    control = Cell(Kind(experiment.name), held[-1].place, Arm.LONGER)
    if control in found:
        label = "longer (control)" + (": as many steps as with the longest deficit" if by_length else "")
        lines.append((label, "longer (control)", LONG_CONTROL, 0, found[control]))
    return [Trained(str(i), *line) for i, line in enumerate(lines)]


def cells_of(analysis: DeficitAnalysis, records: Sequence[RunResult]) -> Found:
    """The records that an analysis is of."""
    by_run = {record.run: record for record in records}
    return {
        _cell(experiment, point): [by_run[run] for run in point.runs if run in by_run]
        for experiment in experiments_of(analysis)
        for point in experiment.points
    }


def _cell(experiment: Experiment, point: DeficitPoint) -> Cell:
    return Cell(Kind(experiment.name), point.place, Arm(point.arm))


def measured(lines: Sequence[Trained]) -> list[str]:
    """The names of the measurements: those that are explained first, then any other."""
    keys = {key for line in lines for record in line.records for entry in record.curve for key in entry}
    return [*(key for key in MEANINGS if key in keys), *sorted(keys - set(MEANINGS) - set(USUAL))]


def courses(lines: Sequence[Trained], key: str) -> Iterator[tuple[Trained, Points]]:
    """The courses of one measurement; a single value is one, since a deficit changes the bits once or twice."""
    for line in lines:
        points = mean_course(line.records, key)
        if points:
            yield line, points
