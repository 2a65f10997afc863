"""From the store to a report: the records of a study, analysed and written to files. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from bitcycle.lab.report import StudyInfo, write_report
from bitcycle.lab.statistics import analyse
from bitcycle.lab.statistics.analysis import Analysis, DeficitAnalysis
from bitcycle.lab.statistics.deficits import analyse_deficits
from bitcycle.lab.studies.plan import Purpose
from bitcycle.lab.studies.store import Store


@dataclass(frozen=True)
class Reported:
    """The analyses of a study, and the files of its report."""

    analyses: list[Analysis]
    deficits: list[DeficitAnalysis]
    files: list[Path]


def report(store: Store, name: str, folder: Path, margin: float | None = None) -> Reported:
    """Write the report of a study, as far as it is done, into a folder.

    Args:
        store: The store that holds the study.
        name: Name of the study.
        folder: Where the files go.
        margin: Margin of the non-inferiority test, in units of the metric; see :func:`analyse`.
    """
    study = store.study(name)
    records = store.records(study.runs)
    plain = [replace(record, curve=[]) for record in records]  # the statistics need no curves
    compared = (record for record in plain if study.members[record.run] is Purpose.COMPARISON)
    analyses = analyse(compared, margin)
    deficits = [found for part in study.deficits if (found := analyse_deficits(part, plain)) is not None]
    info = StudyInfo(
        name=name,
        command=study.command,
        planned=len(study.runs),
        done=len(records),
        failed=[(each.run.schedule, each.run.seed, each.reason) for each in store.failures(study.runs)],
        versions=records[-1].versions if records else {},
        seeds=sorted({run.seed for run in study.runs}),
        started=study.begun,
        ended=study.ended,
        seconds=sum(record.seconds for record in records),
        workers=study.workers,
        plan=study.plan,
    )
    return Reported(analyses, deficits, write_report(folder, info, analyses, records, deficits))
