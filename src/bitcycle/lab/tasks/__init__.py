"""The tasks of the paper, one file per task, and how a task is found by its name."""

from __future__ import annotations

from bitcycle._support.names import nearest
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks import detection, entailment, graph, image, language  # noqa: F401
from bitcycle.experiments.tasks.own_tasks import load_code, load_task
from bitcycle.experiments.tasks.registry import TASKS
from bitcycle.experiments.tasks.task import Task, Training
from bitcycle.experiments.user_code import code_of, is_reference

__all__ = ["TASKS", "Task", "Training", "task_named", "task_of"]


def task_named(name: str) -> Task:
    """Return the task of a name.

    Args:
        name: The name of a registered task, or a reference to the user's own, such as ``my_task.py:MyTask``.

    Raises:
        ValueError: If no task has this name, or there is none where the reference points.

    Example:
        >>> task_named("image").metric
        'accuracy'
    """
    if is_reference(name):
        return load_task(name)()
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}; {nearest(name, TASKS)}")
    return TASKS[name]()


def task_of(run: RunConfig) -> Task:
    """Return the task of a run.

    Raises:
        ValueError: If no task has this name, or this process has not loaded the source of the user's task.
    """
    code = code_of(run)
    return task_named(run.task) if code is None else load_code(code)()
