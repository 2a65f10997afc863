"""Train a random part of the runs again, and compare their figures with those in the repository, digit by digit.

The figures of repeated runs are kept in a folder of their own, in files like those of the runs they repeat.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import cpu_model, run_in_processes
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.user_code import UserCode, code_of
from evidence.design import Design, Role
from evidence.figures import AllFigures, Figure, StudyFigures, figure_of, locked, path_of, read, write
from evidence.studies import PlannedStudy

REPEATED = "repeated"
"""The folder of the figures of repeated runs, inside that of the evidence."""


class Known(NamedTuple):
    """A run with its figures."""

    run: RunConfig
    figure: Figure


class Repetition(NamedTuple):
    """The figures of a run, and those of its repetition."""

    known: Figure
    again: Figure

    @property
    def is_equal(self) -> bool:
        """Whether metric, loss and cost are the same numbers; NaN is equal to itself."""
        known, again = ([each.metric, each.loss, each.bitops] for each in self)
        return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(known, again, strict=True))


def known_runs(study: PlannedStudy, figures: StudyFigures) -> dict[str, Known]:
    """Return the runs of a study that have figures, by name."""
    runs = study.of_settings()
    return {figure.run: Known(runs[figure.run], figure) for figure in figures.figures if figure.run in runs}


def repetitions(figures: AllFigures, repeated: AllFigures) -> dict[str, Repetition]:
    """Return the runs that were repeated by name, as far as they still have figures.

    A run that several studies share, or that was repeated several times, is there once, with a repetition that differs
    if there is one.
    """
    known = {figure.run: figure for study in figures.values() for figure in study.figures}
    pairs = [Repetition(known[e.run], e) for study in repeated.values() for e in study.figures if e.run in known]
    found = {pair.again.run: pair for pair in pairs}
    return found | {pair.again.run: pair for pair in pairs if not pair.is_equal}


def sample(known: Mapping[str, Known], share: float, seed: int) -> dict[str, Known]:
    """Choose a share of the runs at random, at least one if there are any.

    >>> sample({"a": 1, "b": 2, "c": 3}, share=0.5, seed=0)
    {'b': 2, 'c': 3}
    """
    number = min(len(known), max(1, math.ceil(share * len(known))))
    return {name: known[name] for name in sorted(random.Random(seed).sample(sorted(known), number))}


def repeat(chosen: Sequence[Known], workers: int) -> Iterator[Repetition]:
    """Train runs again in fresh processes, each on one thread as a study does."""
    again = run_in_processes(_train, [(each, code_of(each.run)) for each in chosen], workers)
    for each, figure in zip(chosen, again, strict=True):
        yield Repetition(each.figure, figure)


def keep(folder: Path, design: Design, figures: AllFigures, again: Figure) -> None:
    """Add a repeated run to the files of all studies that have it, in place of an earlier repetition.

    One whose numbers differ from the known ones stays: a later repetition that is equal does not refute it.
    """
    for (id, name), study in figures.items():
        known = [figure for figure in study.figures if figure.run == again.run]
        if not known:
            continue
        path = path_of(folder / REPEATED, design.domain(id), name, Role.JUDGING)
        with locked(path):
            earlier = read(path)
            kept = [replace(again, setting=figure.setting) for figure in known]
            for figure in earlier.figures if earlier else ():
                if figure.run != again.run or not Repetition(known[0], figure).is_equal:
                    kept.append(figure)
            write(path, replace(study, figures=tuple(sorted(kept, key=lambda figure: figure.run))))


def _train(job: tuple[Known, UserCode | None]) -> Figure:
    from bitcycle.lab.runs.training import train
    from bitcycle.lab.tasks.user_tasks import load_code

    known, code = job
    if code is not None:
        load_code(code)
    record, _ = train(known.run, execute=known.figure.execution or "auto")  # integers round sums in another order
    made = figure_of(known.figure.setting, record)
    return replace(made, bitcycle=record.versions["bitcycle"], cpu=cpu_model())
