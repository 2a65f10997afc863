"""The tasks of the paper, one file per task, and how a task is found by its name."""

from __future__ import annotations

from importlib import import_module

from bitcycle._support.names import nearest
from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.user_code import code_of, is_reference
from bitcycle.lab.tasks.task import TASKS, Task, Training
from bitcycle.lab.tasks.user_tasks import load_code, load_task

__all__ = ["TASKS", "Task", "Training", "task_named", "task_of"]

for _name in BUILT_IN:
    import_module(f"bitcycle.lab.tasks.{_name}")  # registers the task


def task_named(name: str) -> Task:
    """Return the task of a name.

    Args:
        name: The name of a registered task, or a reference to a user's task, such as ``my_task.py:MyTask``.

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
