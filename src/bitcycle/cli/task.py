"""``bitcycle task``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

task = typer.Typer(no_args_is_help=True, help="Write a task of your own.")


@task.callback()
def about() -> None:
    """Write a task of your own."""


@task.command()
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE.py", help="The file to write, such as my_task.py.")],
) -> None:
    """Write a file with a complete task, as a starting point for your own."""
    from bitcycle.lab.tasks.user_tasks import write_template

    name = write_template(file)
    print(f"written: {file}\ntry: bitcycle study {file}:{name} --seeds 2 --steps 100")
