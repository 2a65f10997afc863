"""Parameters that several commands share, and what shell completion knows about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.schedules import TEN

Complete = Iterable[str] | Callable[..., list[str]]
"""The values that shell completion proposes, or a function that finds them."""


def completion(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a callback that completes one of these names.

    >>> completion(["graph", "image"])("im")
    ['image']
    """
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def option(help: str, *names: str, complete: Complete | None = None, **further: Any) -> Any:
    """Return an option of a command, under these names; default: that of the parameter."""
    return typer.Option(*names, help=help, autocompletion=_completer(complete), **further)


def argument(help: str, complete: Complete | None = None, **further: Any) -> Any:
    """Return an argument of a command; see :func:`option`."""
    return typer.Argument(help=help, autocompletion=_completer(complete), **further)


def _completer(complete: Complete | None) -> Callable[..., list[str]] | None:
    return complete if complete is None or callable(complete) else completion(complete)


def complete_model(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a model of the task that is named on the command line, or of any task."""
    task = context.params.get("task")
    tasks = [BUILT_IN[task]] if task in BUILT_IN else BUILT_IN.values()
    return completion([model for each in tasks for model in each.models])(incomplete)


def json_option(content: str) -> Any:
    """Return the option ``--json`` with a help text that names the content of the document."""
    return option(f"Print one JSON document: {content}.", "--json")


REPORT_JSON = "an object with study, planned, done, failures (run, reason), analyses, deficits and report (the page)"

complete_task = completion(BUILT_IN)
complete_schedule = completion((*TEN, "static:", "full"))

TaskName = Annotated[
    str,
    argument(
        "A task (see 'bitcycle tasks'), or your own as FILE.py:CLASS or package.module:CLASS.", complete=complete_task
    ),
]
Bits = Annotated[
    tuple[int, int] | None,
    option("q_min and q_max, unless a schedule has its own; default: set by the task.", metavar="Q_MIN Q_MAX"),
]
ScheduleBits = Annotated[
    tuple[int, int], option("q_min and q_max, unless a schedule has its own.", metavar="Q_MIN Q_MAX")
]
Cycles = Annotated[int, option("Number of cycles, unless a schedule has its own.")]
Steps = Annotated[int, option("Training steps.")]
Device = Annotated[str, option("The device to train on: cpu, cuda, ...")]

STORE = Path("out/studies.sqlite")
StorePath = Annotated[Path, option("The SQLite file with all results.", "--store", envvar="BITCYCLE_STORE")]
ReportFolder = Annotated[Path | None, option("Folder for the report; default: next to the store.")]
Margin = Annotated[
    float | None,
    option("The largest acceptable loss of quality, in units of the metric; default: 1 % of the baseline's mean."),
]
Workers = Annotated[int, option("Worker processes; 0 = one per core.")]
