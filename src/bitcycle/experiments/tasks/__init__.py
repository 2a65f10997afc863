"""The paper's domains: one readable file per task."""

from __future__ import annotations

from bitcycle._support.names import nearest
from bitcycle.experiments.tasks import detection, entailment, graph, image, language  # noqa: F401
from bitcycle.experiments.tasks.task import TASKS, Task, Training

__all__ = ["TASKS", "Task", "Training", "task_named"]


def task_named(name: str) -> Task:
    """The task of that name."""
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}; {nearest(name, TASKS)}")
    return TASKS[name]()
