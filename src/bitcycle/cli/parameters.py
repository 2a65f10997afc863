"""Parameters that several commands share, and what shell completion knows about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.schedules import TEN


def completion(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a callback that completes one of these names.

    >>> completion(["graph", "image"])("im")
    ['image']
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def complete_model(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a model of the task that is named on the command line, or of any task."""
    task = context.params.get("task")
    tasks = [BUILT_IN[task]] if task in BUILT_IN else BUILT_IN.values()
    return completion([model for each in tasks for model in each.models])(incomplete)


def json_option(content: str) -> Any:
    """Return the option ``--json`` with a help text that names the content of the document."""
    return typer.Option("--json", help=f"Print one JSON document: {content}.")


REPORT_JSON = "an object with study, planned, done, failures (run, reason), analyses, deficits and report (the page)"

complete_task = completion(BUILT_IN)
complete_schedule = completion((*TEN, "static:", "full"))

TaskName = Annotated[
    str,
    typer.Argument(
        help="A task (see 'bitcycle tasks'), or your own as FILE.py:CLASS or package.module:CLASS.",
        autocompletion=complete_task,
    ),
]
Bits = Annotated[
    tuple[int, int] | None,
    typer.Option(
        metavar="Q_MIN Q_MAX", help="q_min and q_max, unless a schedule has its own; default: set by the task."
    ),
]
ScheduleBits = Annotated[
    tuple[int, int], typer.Option(metavar="Q_MIN Q_MAX", help="q_min and q_max, unless a schedule has its own.")
]
Cycles = Annotated[int, typer.Option(help="Number of cycles, unless a schedule has its own.")]
Steps = Annotated[int, typer.Option(help="Training steps.")]
Device = Annotated[str, typer.Option(help="The device to train on: cpu, cuda, ...")]

STORE = Path("out/studies.sqlite")
StorePath = Annotated[Path, typer.Option("--store", help="The SQLite file with all results.", envvar="BITCYCLE_STORE")]
ReportFolder = Annotated[Path | None, typer.Option(help="Folder for the report; default: next to the store.")]
Margin = Annotated[
    float | None,
    typer.Option(
        help="The largest acceptable loss of quality, in units of the metric; default: 1 % of the baseline's mean."
    ),
]
Workers = Annotated[int, typer.Option(help="Worker processes; 0 = one per core.")]
