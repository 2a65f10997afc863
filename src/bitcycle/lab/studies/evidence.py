"""The records of a study as evidence for advice."""

from __future__ import annotations

from pathlib import Path

from bitcycle._support.names import nearest
from bitcycle.lab.advice import RunRecord, TrainingSettings
from bitcycle.lab.runs.result import RunResult
from bitcycle.lab.studies.store import Store


def evidence_of(record: RunResult) -> RunRecord:
    """Return a finished run as :func:`bitcycle.advise` takes it: its quality is signed so that higher is better.

    >>> from bitcycle.lab.runs.run_config import RunConfig
    >>> run = RunConfig("language", "CR:3-8", 400, 7, grid="mx")
    >>> found = evidence_of(RunResult(run, "perplexity", False, 99.5, 99.0, 400, 640, 1.0))
    >>> found.schedule, found.seed, found.quality, found.cost, found.settings.recipe
    ('CR:3-8', 7, -99.5, 640.0, {'grid': 'mx'})
    """
    run = record.run
    quality = record.test if record.higher_is_better else -record.test
    operands = {name: value for name, value in run.condition.overrides.items() if value is not None}
    settings = TrainingSettings(run.schedules.backward_setting(run.steps), operands, run.condition.recipe_changes)
    return RunRecord(run.schedule, run.seed, quality, float(record.bitops), settings)


def evidence_from(path: Path, study: str, task: str | None) -> tuple[list[RunRecord], int]:
    """Read the runs of a study on one task from a store.

    Args:
        path: The store.
        study: Name of the study; the latest if empty.
        task: Name of the task; may be None if the study has only one.

    Returns:
        The runs, and the number of steps they trained for.

    Raises:
        ValueError: If the store has no such study or task, no run is finished, or the runs cannot be compared.
    """
    with Store(path, must_exist=True) as store:
        records = store.records(store.study(study).runs)
    if not records:
        raise ValueError(f"no run of the study in {path} is finished yet")
    tasks = sorted({record.run.task for record in records})
    if task is None and len(tasks) == 1:
        [task] = tasks
    if task not in tasks:
        hint = f"name one of {', '.join(tasks)} with --domain" if task is None else nearest(task, tasks)
        raise ValueError(f"the study has no runs of the task {task!r}; {hint}")
    chosen = [record for record in records if record.run.task == task]
    # evidence is about schedules alone
    if len({(each.run.group, *each.run.condition.overrides.values(), each.run.grid) for each in chosen}) > 1:
        raise ValueError(
            f"the runs of {task} differ in model, steps, options, grid, weights, activations or strength, so their "
            "schedules cannot be compared"
        )
    return [evidence_of(record) for record in chosen], chosen[0].run.steps
