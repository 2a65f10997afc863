"""The tasks by name."""

from __future__ import annotations

from bitcycle.lab.tasks.task import Task

TASKS: dict[str, type[Task]] = {}
"""The registered tasks, by name."""

_REQUIRED = ("name", "metric", "bits", "steps")


def register_task(task: type[Task]) -> type[Task]:
    """Register a task, so that runs can refer to it by name. Use it as a class decorator.

    Registering a class again, or a new version of it from a re-executed module or notebook cell, replaces it.

    Args:
        task: A subclass of :class:`Task`.

    Returns:
        The same class.

    Raises:
        TypeError: If it is not a subclass of :class:`Task`.
        ValueError: If a required class attribute is missing, or another class has the name.

    Example:
        >>> register_task(dict)
        Traceback (most recent call last):
        ...
        TypeError: register_task takes a subclass of bitcycle.tasks.Task, got <class 'dict'>
    """
    if not (isinstance(task, type) and issubclass(task, Task)):
        raise TypeError(f"register_task takes a subclass of bitcycle.tasks.Task, got {task!r}")
    check_attributes(task, f"the task {_path(task)}")
    other = TASKS.get(task.name)
    if other is not None and _path(other) != _path(task):
        raise ValueError(f"the task name {task.name!r} of {_path(task)} is already taken by {_path(other)}")
    TASKS[task.name] = task
    return task


def check_attributes(task: type[Task], called: str) -> None:
    """Raise a ValueError if a task lacks a required class attribute; ``called`` is how the message refers to it."""
    missing = [attribute for attribute in _REQUIRED if not hasattr(task, attribute)]
    if missing:
        raise ValueError(f"{called} has no {', '.join(missing)}; set it as a class attribute")


def _path(task: type[Task]) -> str:
    return f"{task.__module__}.{task.__qualname__}"
