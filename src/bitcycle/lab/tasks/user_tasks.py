"""Tasks of the user: named by a reference such as ``my_task.py:MyTask``, or given as a class."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from bitcycle.lab.data.fingerprints import fingerprint
from bitcycle.lab.data.official import resolve_data
from bitcycle.lab.runs.user_code import CODES, UserCode, UserCodeError, code_at, code_of_class, import_code, read_code
from bitcycle.lab.tasks.task import TASKS, Task, check_attributes


def load_task(reference: str) -> type[Task]:
    """Return the task that a reference names.

    Args:
        reference: ``FILE.py:CLASS`` or ``package.module:CLASS``; also ``FILE.py`` if the file defines one task only.

    Raises:
        UserCodeError: If there is no such task, or its code fails.
    """
    return load_code(code_at(reference, "") if reference.endswith(".py") else read_code(reference))


def load_class(task: type[Task]) -> type[Task]:
    """Return a task that was given as a class, imported again from its file, as workers import it.

    Raises:
        UserCodeError: If it is not in a file, or not at its top level.
    """
    return load_code(code_of_class(task))


def load_code(code: UserCode) -> type[Task]:
    """Import code and return the task that it names.

    Raises:
        UserCodeError: If the code fails, or the object is not a complete task.
    """
    if not code.attribute:
        code = replace(code, attribute=_only_task(code))
    task = code.load()
    where = f"{code.path}: {code.attribute}"
    if not (isinstance(task, type) and issubclass(task, Task)):
        raise UserCodeError(f"{where} is not a task, a class derived from bitcycle.tasks.LoaderTask or Task")
    check_attributes(task, where)
    if missing := sorted(getattr(task, "__abstractmethods__", ())):
        raise UserCodeError(f"{where} has no method {', '.join(missing)}; 'bitcycle task new FILE.py' shows an example")
    if is_built_in(TASKS.get(task.name)):
        raise UserCodeError(f"{where} has the name of the built-in task {task.name!r}: set another name")
    task.source = code.digest
    CODES[code.digest] = code
    return task


def is_built_in(task: type[Task] | None) -> bool:
    """Return whether a task is built in, so that every worker knows it."""
    return task is not None and task.__module__.startswith("bitcycle.")


def run_identity(task: Task, data: str) -> dict[str, Any]:
    """Return the fields of a run that say what the task and its data are.

    Args:
        task: The task.
        data: The data as the user names it; the task's default if empty.

    Returns:
        The fields ``task``, ``source``, ``data`` and ``fingerprint`` of a :class:`RunConfig`.

    Raises:
        DataError: If there is no such data, or it cannot be read.
    """
    place = resolve_data(data) or _default_data(type(task))
    return {"task": task.name, "source": task.source, "data": place, "fingerprint": fingerprint(place)}


def _default_data(task: type[Task]) -> str:
    """Return the path of a task's default data, which is relative to the file of the task."""
    if not task.data:
        return ""
    module = sys.modules.get(task.__module__)
    folder = Path(getattr(module, "__file__", None) or "unknown").parent
    return resolve_data(os.path.abspath(folder / task.data))


def _only_task(code: UserCode) -> str:
    module = import_code(code)
    tasks = [
        each.__name__
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Task) and each.__module__ == module.__name__
    ]
    if len(tasks) != 1:
        found = f"has the tasks {', '.join(tasks)}: name one" if tasks else "has no task: name a class of it"
        example = f"{Path(code.main).name}:{tasks[0] if tasks else 'MyTask'}"
        raise UserCodeError(f"{code.path} {found}, as in {example}")
    return tasks[0]


def write_template(path: Path) -> str:
    """Write a file with a complete task to begin with.

    Args:
        path: The file, which must not exist yet.

    Returns:
        The name of the class, which is made of the name of the file: ``MyTask`` in ``my_task.py``.

    Raises:
        ValueError: If the file exists, or Python could not import a file of this name.
    """
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise ValueError(f"{path}: the name of the file must be one that Python can import, such as my_task.py")
    if path.exists():
        raise ValueError(f"{path} exists already: choose another name")
    name = "".join(part[:1].upper() + part[1:] for part in path.stem.split("_"))
    text = files("bitcycle.lab.tasks").joinpath("my_task.py.template").read_text("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("my_task.py", path.name).replace("MyTask", name), "utf-8")
    return name
