"""From the store to a report: the records of a study, analysed and written to files. Nothing here needs torch."""

from __future__ import annotations

from pathlib import Path

from bitcycle.lab.report import StudyInfo, write_report
from bitcycle.lab.statistics import analyse
from bitcycle.lab.statistics.deficits import analyse_deficits
from bitcycle.lab.studies.plan import Purpose
from bitcycle.lab.studies.store import Store
from bitcycle.lab.studies.study_result import StudyResult


def analysed(store: Store, name: str, margin: float | None = None) -> StudyResult:
    """Return the analyses of a study, as far as it is done; see :func:`analyse` for the margin."""
    study = store.study(name)
    records = store.records(study.runs, with_curves=False)
    compared = (record for record in records if study.members[record.run] is Purpose.COMPARISON)
    analyses = analyse(compared, margin)
    deficits = [found for part in study.deficits if (found := analyse_deficits(part, records))]
    failures = store.failures(study.runs)
    return StudyResult(name, store.path, len(study.runs), len(records), failures, analyses, deficits, margin)


def report(store: Store, name: str, folder: Path, margin: float | None = None) -> StudyResult:
    """Write the report of a study into a folder, and return its analyses; see :func:`analysed`."""
    result = analysed(store, name, margin)
    study = store.study(name)
    records = store.records(study.runs)
    info = StudyInfo(
        name=name,
        command=study.command,
        planned=result.planned,
        done=result.done,
        failed=[(each.run.schedule, each.run.seed, each.reason) for each in result.failures],
        versions=records[-1].versions if records else {},
        seeds=sorted({run.seed for run in study.runs}),
        started=study.begun,
        ended=study.ended,
        seconds=sum(record.seconds for record in records),
        workers=study.workers,
        plan=study.plan,
    )
    write_report(folder, info, result.analyses, records, result.deficits)
    return result
