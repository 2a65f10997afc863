"""Studies from Python, without the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bitcycle._study.driver import StudyProgress, run_study
from bitcycle._study.engines import engine_of
from bitcycle._study.plan import check_data
from bitcycle._study.plan_file import plan_of
from bitcycle._study.progress import EndedRuns
from bitcycle._study.statistics import analyse
from bitcycle._study.store import Store
from bitcycle._study.study_result import StudyResult
from bitcycle.experiments.tasks import TASKS, Task
from bitcycle.experiments.tasks.own_tasks import is_built_in, load_class
from bitcycle.experiments.user_code import refuse_while_executing
from bitcycle.schedules import Schedule


def study(
    task: str | Task | type[Task],
    schedules: str | Schedule | Iterable[str | Schedule] = "all",
    seeds: int | Iterable[int] = 3,
    *,
    bits: Sequence[int] | Sequence[Sequence[int]] | None = None,
    cycles: int | Iterable[int] | None = None,
    steps: int | None = None,
    backward_bits: int | str | None = "max",
    weights: str | Schedule | Iterable[str | Schedule] | None = None,
    activations: str | Schedule | Iterable[str | Schedule] | None = None,
    strength: str | Iterable[str] | None = None,
    grid: str | Iterable[str] | None = None,
    model: str = "",
    data: str | Path = "",
    batch_size: int = 0,
    options: Mapping[str, Any] | None = None,
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
) -> StudyResult:
    """Compare schedules on a task: train all of them with several seeds in parallel, and analyse the results.

    The results are in a store. A study that is started again trains only the runs that the store does not have: those
    that are missing after an interruption, new schedules or seeds, and all of them if the source of the task or its
    data has changed.

    Args:
        task: The name of a built-in task, a reference to your own such as ``"my_task.py:MyTask"``, or a class (or an
            instance without state) that is defined in a file or in a notebook.
        schedules: Names, specs or schedules; ``"ten"``, ``"baselines"`` and ``"all"`` stand for several.
        seeds: The number of seeds, or the seeds.
        bits: q_min and q_max for schedules that are given by name, or several such pairs; by default the task's.
        cycles: The number of cycles for schedules that are given by name, or several; by default the task's.
        steps: Training steps of each run; by default the task's.
        backward_bits: The bit-width of gradients; ``"max"`` is q_max, ``None`` is full precision.
        weights: A separate schedule for the weights, or several; by default the schedule of the run.
        activations: A separate schedule for the activations, or several; by default the schedule of the run.
        strength: The strength of quantisation as a spec, or several; by default full strength.
        grid: What a width means, such as ``"mx"``, or several grids; by default ``"integer"``.
        model: One of the task's models; by default the first.
        data: A folder or file with data; by default the task's own.
        batch_size: Samples per step; 0 = the task's default.
        options: Options of the task. A list of values means that each is tried.
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
    refuse_while_executing("bc.study")
    named = _task(task)
    moves = {"schedules": schedules, "weights": weights, "activations": activations, "strength": strength}
    specs = {key: _specs(key, value) for key, value in moves.items()}
    if isinstance(named, str) and named in TASKS:
        _refuse_functions(each for values in specs.values() for each in values or ())
    given = {
        **specs,
        "seeds": _seeds(seeds),
        "bits": None if bits is None else [list(each) if isinstance(each, Sequence) else each for each in bits],
        "cycles": cycles if cycles is None or isinstance(cycles, int) else list(cycles),
        "steps": steps,
        "backward_bits": "full" if backward_bits is None else backward_bits,
        "grid": grid if grid is None or isinstance(grid, str) else list(grid),
        "model": model,
        "data": str(data),
        "batch_size": batch_size,
        "options": dict(options or {}),
    }
    plan = plan_of({"task": named, **{key: value for key, value in given.items() if value is not None}}, name)
    plan = plan if name else replace(plan, name=plan.parts[0].task)
    plan.check()
    chosen = engine_of(engine, workers, threads, device, address, gpus)
    watch = (EndedRuns().print if progress else _ignore) if isinstance(progress, bool) else progress
    if not Path(store).exists():  # nothing is done yet
        check_data(plan.runs())
    with Store(store) as opened:
        run_study(plan, opened, chosen, "bitcycle.study(...) in Python", retry_failed, watch)
        runs = opened.study(plan.name).runs
        records = opened.records(runs)
        return StudyResult(
            plan.name, opened.path, len(runs), len(records), opened.failures(runs), analyse(records, margin), margin
        )


def _specs(key: str, given: Any) -> list[str] | None:
    if given is None:
        return None
    several = [given] if isinstance(given, (str, Schedule)) else given
    if not isinstance(several, Iterable):
        raise ValueError(f"{key} must be a name, a spec, a schedule or a list of them, got {given!r}")
    return [str(each) for each in several]


def _seeds(given: Any) -> int | list[int]:
    if not isinstance(given, (int, Iterable)):
        raise ValueError(f"seeds must be a number of seeds, or a list of seeds, got {given!r}")
    return given if isinstance(given, int) else list(given)


def _refuse_functions(specs: Iterable[str]) -> None:
    """Raise an error for schedules that are functions of this process. Workers know only those of a task's own file."""
    for spec in specs:
        if "call:" in spec:
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


def _ignore(progress: StudyProgress) -> None:
    pass
