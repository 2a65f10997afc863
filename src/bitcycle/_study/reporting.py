"""From the store to a report: the records of a study, analysed and written down."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from bitcycle._study.analysis import Analysis, DeficitAnalysis
from bitcycle._study.deficits import DeficitPart
from bitcycle._study.plan_file import plan_of
from bitcycle._study.report import StudyInfo, write_report
from bitcycle._study.statistics import analyse
from bitcycle._study.statistics.deficits import analyse_deficits
from bitcycle._study.store import Store


@dataclass(frozen=True)
class Reported:
    """What a study says, and the files that say it."""

    analyses: list[Analysis]
    deficits: list[DeficitAnalysis]
    files: list[Path]


def report(store: Store, name: str, folder: Path) -> Reported:
    """Write the report of a study, as far as it is done, into a folder."""
    study = store.study(name)
    records = store.records(study.runs)
    parts = [part for part in plan_of(tomllib.loads(study.plan), name).parts if isinstance(part, DeficitPart)]
    probing = {run for part in parts for run in part.runs()}
    analyses = analyse(record for record in records if record.run not in probing)
    deficits = [found for part in parts if (found := analyse_deficits(part, records)) is not None]
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
    return Reported(analyses, deficits, write_report(folder, info, analyses, records, deficits))
