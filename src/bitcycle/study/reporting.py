"""From the store to a report: the records of a study, analysed and written down."""

from __future__ import annotations

from pathlib import Path

from bitcycle.study.analysis import Analysis
from bitcycle.study.report import StudyInfo, write_report
from bitcycle.study.statistics import analyse
from bitcycle.study.store import Store


def report(store: Store, name: str, folder: Path) -> tuple[list[Analysis], list[Path]]:
    """Write the report of a study, as far as it is done, into a folder; gives the analyses and the files written."""
    study = store.study(name)
    records = store.records(study.runs)
    analyses = analyse(records)
    info = StudyInfo(
        name=name,
        command=study.command,
        planned=len(study.runs),
        done=len(records),
        failed=[(each.run.schedule, each.run.seed, each.reason) for each in store.failures(study.runs)],
        versions=records[-1].versions if records else {},
        seeds=sorted({run.seed for run in study.runs}),
        started=study.begun,
        seconds=sum(record.seconds for record in records),
        plan=study.plan,
    )
    return analyses, write_report(folder, info, analyses, records)
