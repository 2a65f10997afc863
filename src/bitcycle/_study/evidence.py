"""The records of a study as evidence for advice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bitcycle._study.store import Store
from bitcycle._support.names import nearest


@dataclass(frozen=True)
class Evidence:
    """A finished run as :func:`bitcycle.advise` takes it."""

    schedule: str
    seed: int
    quality: float
    """Higher is better: a metric of which less is better is turned."""
    cost: float


def evidence_from(path: Path, study: str, task: str | None) -> tuple[list[Evidence], int]:
    """The runs of a study (the latest if none is named) on one task, and the steps they trained for."""
    with Store(path, must_exist=True) as store:
        names = store.studies()
        if not names:
            raise ValueError(f"{path} has no study yet")
        records = store.records(store.study(study or names[-1]).runs)
    if not records:
        raise ValueError(f"none of the study's runs is done yet: {path} has nothing to go by")
    tasks = sorted({record.run.task for record in records})
    if task is None and len(tasks) == 1:
        [task] = tasks
    if task not in tasks:
        hint = f"name one of {', '.join(tasks)} by --domain" if task is None else nearest(task, tasks)
        raise ValueError(f"the study has no runs of the task {task!r}; {hint}")
    chosen = [record for record in records if record.run.task == task]
    if len({record.question for record in chosen}) > 1:
        raise ValueError(f"the study asks several questions about {task} (models, steps, options): make one of each")
    return [
        Evidence(
            record.run.schedule,
            record.run.seed,
            record.test if record.higher_is_better else -record.test,
            float(record.bitops),
        )
        for record in chosen
    ], chosen[0].run.steps
