"""Parameters that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TaskName = Annotated[str, typer.Argument(help="image, graph, language, ...: see 'bitcycle tasks'.")]
Bits = Annotated[tuple[int, int] | None, typer.Option(help="q_min and q_max; the task's own if not given.")]
Model = Annotated[str, typer.Option(help="One of the task's models; its first if not given.")]
Data = Annotated[
    str, typer.Option(help="A folder with official data, or a name from 'bitcycle data list'; else embedded.")
]
BatchSize = Annotated[int, typer.Option(help="0: the task's own.")]
TaskOptions = Annotated[list[str] | None, typer.Option(help="NAME=VALUE, an option of the task; can be repeated.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, ...")]

STORE = Path("out/studies.sqlite")
Stored = Annotated[Path, typer.Option("--store", help="The SQLite file with all runs.", envvar="BITCYCLE_STORE")]
ReportFolder = Annotated[Path | None, typer.Option(help="Folder of the report; beside the store if not given.")]
Workers = Annotated[int, typer.Option(help="Processes at once; 0: one a core.")]
WorkerThreads = Annotated[int, typer.Option(help="Threads of each; 0: its share of the cores.")]
EngineName = Annotated[str, typer.Option(help="'local', or 'ray' for a cluster.")]
Address = Annotated[str, typer.Option(help="Of a Ray cluster; 'auto' finds it; empty starts one here.")]
Gpus = Annotated[float, typer.Option(help="GPUs for each run on a cluster; may be a fraction.")]
RetryFailed = Annotated[bool, typer.Option(help="Run again what failed before.")]
DryRun = Annotated[bool, typer.Option(help="Show the runs, their cost and the estimated time; run nothing.")]


def options_of(given: list[str] | None) -> dict[str, str]:
    """Options from their form on the command line.

    >>> options_of(["aggregation=quantized"])
    {'aggregation': 'quantized'}
    """
    options = {}
    for text in given or []:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise ValueError(f"an option is NAME=VALUE, not {text!r}")
        options[name] = value
    return options
