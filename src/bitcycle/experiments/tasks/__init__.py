"""The tasks of the paper, one file per task, and the registry of all tasks."""

from __future__ import annotations

from bitcycle._support.names import nearest
from bitcycle.experiments.tasks import detection, entailment, graph, image, language  # noqa: F401
from bitcycle.experiments.tasks.task import TASKS, Task, Training

__all__ = ["TASKS", "Task", "Training", "task_named"]


def task_named(name: str) -> Task:
    """Return the registered task of a name.

    Raises:
        ValueError: If no task has this name.

    Example:
        >>> task_named("image").metric
        'accuracy'
    """
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}; {nearest(name, TASKS)}")
    return TASKS[name]()
