"""The file that ``bitcycle task new`` writes."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

_TEMPLATE = "my_task.py.template"


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
    text = files("bitcycle.lab.tasks").joinpath(_TEMPLATE).read_text("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("my_task.py", path.name).replace("MyTask", name), "utf-8")
    return name
