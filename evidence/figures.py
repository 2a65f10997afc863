"""The figures of judging runs: one small CSV file per study, from which everything else is computed."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from itertools import product
from pathlib import Path

from bitcycle.lab.locks import locked as file_locked
from bitcycle.lab.runs.result import TEST_LOSS, RunResult
from bitcycle.lab.studies.exports import replacing
from bitcycle.lab.studies.store import Store
from evidence.design import Design, Domain, Measure, Role
from evidence.studies import PlannedStudy, settings_of

FIGURES = "figures"
"""The folder of judging figures; those of pilots are in ``pilots``."""
FOLDERS = {Role.JUDGING: FIGURES, Role.TUNING: "pilots"}


@dataclass(frozen=True)
class Figure:
    """What one run contributes."""

    setting: str
    """The setting as claims name it."""
    schedule: str
    """Its schedule as a spec."""
    seed: int
    metric: float
    """The task's metric on the test set."""
    loss: float
    """The mean loss on the test set."""
    bitops: int
    """The metered cost of the training."""
    seconds: float
    run: str
    """The name of the run."""
    execution: str
    """How products were computed."""
    bitcycle: str = ""
    """The version that trained it; known of repetitions alone."""
    cpu: str = ""
    """The model of the CPU that trained it; known of repetitions alone."""

    def quality(self, measure: Measure, higher_is_better: bool) -> float:
        """Return the quality by a measure; higher is better."""
        if measure is Measure.LOSS:
            return -self.loss
        return self.metric if higher_is_better else -self.metric


@dataclass(frozen=True)
class StudyFigures:
    """The figures of a study, and what they need to be read."""

    metric: str
    higher_is_better: bool
    figures: tuple[Figure, ...]

    def by_setting(self, measure: Measure) -> dict[str, dict[int, float]]:
        """Return the quality of each setting by seed."""
        found: dict[str, dict[int, float]] = {}
        for figure in self.figures:
            found.setdefault(figure.setting, {})[figure.seed] = figure.quality(measure, self.higher_is_better)
        return found

    def costs(self) -> dict[str, float]:
        """Return the mean cost of each setting."""
        found: dict[str, list[int]] = {}
        for figure in self.figures:
            found.setdefault(figure.setting, []).append(figure.bitops)
        return {setting: math.fsum(costs) / len(costs) for setting, costs in found.items()}


AllFigures = Mapping[tuple[str, str], StudyFigures]
"""Figures by domain and study."""


def path_of(folder: Path, domain: Domain, study: str, role: Role) -> Path:
    """Return the file of a study."""
    return folder / FOLDERS[role] / f"{domain.id}-{study.replace(' ', '-')}.csv"


def update(path: Path, study: PlannedStudy, store: Store) -> int:
    """Bring a file up to date with the finished runs of a study; without any, there is no file.

    Figures that are in the file alone, such as those of another machine, are kept as far as the study still has their
    runs. A setting with another schedule than before has other runs.

    Returns how many figures are dropped because the study no longer has their runs.
    """
    with locked(path):
        earlier = read(path)
        records = {record.run.name: record for record in store.records([run for _, run in study.runs])}
        kept = {figure.run: figure for figure in earlier.figures} if earlier else {}
        figures = []
        for setting, run in study.runs:
            if run.name in records:
                figures.append(figure_of(setting, records[run.name]))
            elif run.name in kept:
                figures.append(replace(kept[run.name], setting=setting))
        if figures:
            example = earlier or next(iter(records.values()))
            write(path, StudyFigures(example.metric, example.higher_is_better, tuple(figures)))
        else:
            path.unlink(missing_ok=True)
    planned = study.of_settings()
    return sum(figure.run not in planned for figure in earlier.figures) if earlier else 0


def complete_study(design: Design, domain: Domain, study: str, figures: AllFigures) -> StudyFigures | None:
    """Return the judging figures of a study; None unless all are there: a look at some could decide when to stop.

    Figures are known by setting and seed, so nothing is loaded or solved for it.
    """
    found = figures.get((domain.id, study))
    planned = set(product(settings_of(design, domain, study), design.seeds(domain, Role.JUDGING, study)))
    return found if found and planned <= {(figure.setting, figure.seed) for figure in found.figures} else None


def figure_of(setting: str, record: RunResult) -> Figure:
    """Return what a run contributes."""
    return Figure(
        setting,
        record.run.schedule,
        record.run.seed,
        record.test,
        record.extra.get(TEST_LOSS, math.nan),
        record.bitops,
        round(record.seconds, 1),
        record.run.name,
        record.versions.get("execution", ""),
    )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes that lock the same file of figures from changing it meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with file_locked(path.with_suffix(".lock")):
        yield


_COLUMNS = {field.name: {"int": int, "float": float}.get(str(field.type), str) for field in fields(Figure)}
"""The columns of a file with the types of their values; only repetitions have the last two."""


def write(path: Path, study: StudyFigures) -> None:
    """Write figures with all digits. The column of the metric is named after it: ``accuracy`` or, lower is better,
    ``-perplexity``. The version and the CPU have columns if they are known.
    """
    width = len(_COLUMNS) if any(figure.bitcycle or figure.cpu for figure in study.figures) else len(_COLUMNS) - 2
    metric = study.metric if study.higher_is_better else f"-{study.metric}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([metric if name == "metric" else name for name in _COLUMNS][:width])
        writer.writerows(astuple(figure)[:width] for figure in study.figures)


def read(path: Path) -> StudyFigures | None:
    """Read figures; None if there is no such file.

    Raises:
        ValueError: The file is not one that :func:`write` wrote.
    """
    if not path.exists():
        return None
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        heads = next(reader, [])
        expected = [heads[i] if name == "metric" and i < len(heads) else name for i, name in enumerate(_COLUMNS)]
        if heads not in (expected, expected[:-2]):
            raise ValueError(f"{path}: has the columns {', '.join(heads)}; they should be {', '.join(_COLUMNS)}")
        metric = heads[list(_COLUMNS).index("metric")]
        figures = []
        for row in reader:
            try:
                cells = zip(list(_COLUMNS.values())[: len(heads)], row, strict=True)
                figures.append(Figure(*(convert(cell) for convert, cell in cells)))
            except ValueError as error:
                raise ValueError(f"{path}, line {reader.line_num}: {error}, in the row {','.join(row)}") from None
    return StudyFigures(metric.removeprefix("-"), not metric.startswith("-"), tuple(figures))


def all_figures(folder: Path, design: Design, role: Role) -> dict[tuple[str, str], StudyFigures]:
    """Return the figures of all studies that have some, by domain and study; only the seeds of the design count."""
    found: dict[tuple[str, str], StudyFigures] = {}
    for domain in design.domains:
        for name in domain.studies:
            study, seeds = read(path_of(folder, domain, name, role)), design.seeds(domain, role, name)
            if study is not None:
                of_seeds = tuple(figure for figure in study.figures if figure.seed in seeds)
                found[domain.id, name] = replace(study, figures=of_seeds)
    return found


def total_seconds(studies: Iterable[StudyFigures]) -> float:
    """Return the time of all runs of several studies; a run that two of them share counts once."""
    return math.fsum({figure.run: figure.seconds for each in studies for figure in each.figures}.values())
