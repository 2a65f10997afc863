"""The measurements along the trainings of a deficit experiment, as means over the seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bitcycle.study.analysis import DeficitAnalysis, DeficitPoint
from bitcycle.study.deficits import Cell, DeficitPart
from bitcycle.study.records import Record
from bitcycle.study.report.curve_data import USUAL, Points, mean_course
from bitcycle.study.report.deficits.facts import Experiment, experiments_of, place_words
from bitcycle.study.report.deficits.meanings import MEANINGS
from bitcycle.study.report.deficits.shades import CONTROL, LONG_CONTROL, shades

Found = dict[Cell, list[Record]]


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
    records: list[Record]


@dataclass(frozen=True)
class Trainings:
    """The trainings of the experiment that is looked at."""

    experiment: Experiment
    lines: list[Trained]


def trained(analysis: DeficitAnalysis, records: Sequence[Record]) -> Trainings | None:
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
    none = Cell("length", 0, "longer")
    if by_length and none in found:
        lines.append(("no deficit: the normal training", "0", CONTROL, 0, found[none]))
    for point, shade in zip(held, shades(len(held)), strict=True):
        label = f"held, {place_words(analysis, experiment, point)}"
        ends = point.place + (0 if by_length else analysis.window)
        lines.append((label, f"{point.share:.3g}", shade, ends, found[_cell(experiment, point)]))
    control = Cell(experiment.name, held[-1].place, "longer")
    if control in found:
        label = "longer (control)" + (": as many steps as with the longest deficit" if by_length else "")
        lines.append((label, "longer (control)", LONG_CONTROL, 0, found[control]))
    return [Trained(str(i), *line) for i, line in enumerate(lines)]


def cells_of(analysis: DeficitAnalysis, records: Sequence[Record]) -> Found:
    """The records that an analysis is of.

    An analysis does not say which model, data and options it is about, and a study may ask the same of several: it is
    those whose qualities are the ones of the analysis.
    """
    by_run = {record.run: record for record in records if record.run.task == analysis.task}
    questions = {(r.measured, r.model, r.data, r.batch_size, r.options): None for r in by_run}
    for measured, model, data, batch_size, options in questions:
        part = DeficitPart(
            analysis.task,
            analysis.bits,
            analysis.steps,
            lengths=tuple(point.share for point in analysis.lengths),
            window=analysis.window / analysis.steps,
            starts=tuple(point.share for point in analysis.positions),
            seeds=tuple(sorted({seed for e in experiments_of(analysis) for p in e.points for seed in p.qualities})),
            measured=measured,
            model=model,
            data=data,
            batch_size=batch_size,
            options=dict(options),
        )
        found: Found = {}
        for cell, run in part.cells():
            if run in by_run:
                found.setdefault(cell, []).append(by_run[run])
        if _are_those_of(analysis, found):
            return found
    return {}


def _cell(experiment: Experiment, point: DeficitPoint) -> Cell:
    return Cell(experiment.name, point.place, point.arm)


def _are_those_of(analysis: DeficitAnalysis, found: Found) -> bool:
    for experiment in experiments_of(analysis):
        for point in experiment.points:
            mine = {record.run.seed: record.test for record in found.get(_cell(experiment, point), [])}
            if not _same(mine, point.qualities):
                return False
    return True


def _same(ours: Mapping[int, float], theirs: Mapping[int, float]) -> bool:
    """Whether the figures are the same; not a number is the same as itself here."""
    return ours.keys() == theirs.keys() and all(
        value == theirs[seed] or (math.isnan(value) and math.isnan(theirs[seed])) for seed, value in ours.items()
    )


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
