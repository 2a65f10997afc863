"""Studies from Python, without the command line."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any

from bitcycle._support.names import nearest
from bitcycle.lab.runs.fields import as_list
from bitcycle.lab.runs.run_config import DEFAULTS, KEYWORDS, OPERAND_OVERRIDES
from bitcycle.lab.runs.user_code import refuse_while_importing
from bitcycle.lab.studies.driver import StudyProgress, run_study
from bitcycle.lab.studies.engines import engine_of
from bitcycle.lab.studies.plan import check_data
from bitcycle.lab.studies.plan_file import plan_of
from bitcycle.lab.studies.reporting import analysed
from bitcycle.lab.studies.store import Store
from bitcycle.lab.studies.study_result import StudyResult
from bitcycle.lab.tasks import TASKS, Task
from bitcycle.lab.tasks.user_tasks import is_built_in, load_class
from bitcycle.schedules import Schedule


def study(
    task: str | Task | type[Task],
    schedules: str | Schedule | Iterable[str | Schedule] = "all",
    seeds: int | Iterable[int] = 3,
    *,
    bits: Sequence[int] | Sequence[Sequence[int]] | None = None,
    cycles: int | Iterable[int] | None = None,
    name: str = "",
    store: str | Path = "out/studies.sqlite",
    margin: float | None = None,
    workers: int = 0,
    threads: int = 0,
    device: str = "cpu",
    engine: str = "local",
    address: str = "",
    gpus: float = 0.0,
    retry_failed: bool = False,
    progress: bool | Callable[[StudyProgress], None] = True,
    **fields: Any,
) -> StudyResult:
    """Compare schedules on a task: train all of them with several seeds in parallel, and analyse the results.

    The results are in a store. A study that is started again trains only the runs that the store does not have: those
    that are missing after an interruption, new schedules or seeds, and all of them if the source of the task or its
    data has changed.

    Args:
        task: The name of a built-in task, a reference to your own such as ``"my_task.py:MyTask"``, or a class (or an
            instance without state) that is defined in a file.
        schedules: Names, specs or schedules; ``"ten"``, ``"baselines"`` and ``"all"`` stand for several.
        seeds: The number of seeds, or the seeds.
        bits: q_min and q_max for schedules that are given by name, or several such pairs; by default the task's.
        cycles: The number of cycles for schedules that are given by name, or several; by default the task's.
        name: The name of the study in the store; by default that of the task.
        store: The SQLite file with all results.
        margin: The largest acceptable loss of quality, in units of the metric; by default 1 % of the baseline's mean.
        workers: Worker processes; 0 = one per core.
        threads: Threads of each worker; 0 = its share of the cores.
        device: The device to train on.
        engine: ``"local"`` for this machine, or ``"ray"`` for a Ray cluster.
        address: The address of a Ray cluster.
        gpus: GPUs for each run on a cluster.
        retry_failed: Train failed runs again.
        progress: Whether to print a line for each run that ends, or a function that is called with the progress.
        **fields: Fields of the runs, see :class:`bitcycle.tasks.RunConfig`: ``steps``, ``model``, ``grid``, ... A field
            that is compared, such as ``grid`` or ``weights``, and an option in ``options`` can be a list: each value is
            tried.

    Returns:
        The analysis: ``print(result)``, ``result.rows``, ``result.report(folder)``.

    Raises:
        ValueError: The task, a schedule or another argument is wrong. Nothing was run.
        OSError: The store or a checkpoint cannot be written.

    Example::

        import bitcycle as bc

        result = bc.study("my_task.py:MyTask", schedules=["CR", "RTH", "static q_max"], seeds=5)
        print(result)
        result.report("out/my-study")
    """
    refuse_while_importing("bc.study")
    if unknown := sorted(fields.keys() - KEYWORDS.keys()):
        raise TypeError(f"study() got an unexpected keyword argument {unknown[0]!r}; {nearest(unknown[0], KEYWORDS)}")
    named = _task(task)
    values: dict[str, Any] = {"schedules": schedules, "seeds": seeds, "bits": bits, "cycles": cycles, **fields}
    given = {key: _plan_value(value) for key, value in values.items() if value is not None}
    if fields.get("backward_bits", MISSING) is None:
        given["backward_bits"] = "full"
    if isinstance(named, str) and named in TASKS:
        _refuse_functions(each for key in _SPECS for each in as_list(given.get(key, "")))
    plan = plan_of({"task": named, **given}, name)
    chosen = engine_of(engine, workers, threads, device, address, gpus)
    watch = progress if callable(progress) else _print_line if progress else lambda now: None
    if not Path(store).exists():  # nothing is done yet
        check_data(plan.runs())
    with Store(store) as opened:
        run_study(plan, opened, chosen, "bitcycle.study(...) in Python", retry_failed, watch)
        return analysed(opened, plan.name, margin)


def _document_fields() -> None:
    """Give :func:`study` a signature and a documentation that have every field of a run."""
    signature = inspect.signature(study)
    *own, _ = signature.parameters.values()
    further = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None if default is MISSING else default)
        for name, default in DEFAULTS.items()
        if name in KEYWORDS
    ]
    study.__signature__ = signature.replace(parameters=[*own, *further])  # type: ignore[attr-defined]
    before, _, after = (study.__doc__ or "").partition("        **fields: ")
    lines = [
        textwrap.fill(f"{name}: {info.help}", 120, initial_indent=" " * 8, subsequent_indent=" " * 12)
        for name, info in KEYWORDS.items()
    ]
    study.__doc__ = before + "\n".join(lines) + after[after.index("\n\n") :]


_document_fields()
_SPECS = ("schedules", "backward_bits", *OPERAND_OVERRIDES)
"""The arguments that can be schedules."""


def _plan_value(value: Any) -> Any:
    """Return a value as a plan file would have it."""
    if isinstance(value, (Schedule, Path)):
        return str(value)
    is_list = isinstance(value, Iterable) and not isinstance(value, (str, Mapping))
    return [_plan_value(each) for each in value] if is_list else value


def _refuse_functions(specs: Iterable[Any]) -> None:
    """Raise an error for schedules that are functions of this process. Workers know only those of a task's own file."""
    for spec in specs:
        if "call:" in str(spec):
            raise ValueError(
                f"{spec} is a function, which the processes that train do not know: build the schedule from specs such "
                "as join(static:4, 0.5, CR:3-8), or call bc.schedule(function) in the file of a task of your own"
            )


def _task(task: str | Task | type[Task]) -> str | type[Task]:
    """Return a task as a plan takes it: a name or a reference, or a class whose source workers can execute."""
    if isinstance(task, str):
        registered = TASKS.get(task)
        return task if registered is None or is_built_in(registered) else load_class(registered)
    if isinstance(task, Task):
        if vars(task):
            state = ", ".join(vars(task))
            raise ValueError(f"the task has state that workers do not know ({state}): use class attributes instead")
        task = type(task)
    if not (isinstance(task, type) and issubclass(task, Task)):
        raise ValueError(f"task must be a name, a reference such as 'my_task.py:MyTask' or a Task, got {task!r}")
    return task.name if is_built_in(task) else load_class(task)


def _print_line(now: StudyProgress) -> None:
    """Print a line for a run that has ended."""
    if now.line:
        print(now.line, file=sys.stderr, flush=True)
