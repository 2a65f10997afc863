"""Parameters that several commands share, and what shell completion knows about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.lab.studies.engines import EngineKind
from bitcycle.schedules import TEN, schedule, strength

MODELS = {name: task.models for name, task in BUILT_IN.items()}
"""The models of each task."""


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
    tasks = [task] if task in MODELS else list(MODELS)
    return completion([model for name in tasks for model in MODELS[name]])(incomplete)


def json_option(content: str) -> Any:
    """Return the option ``--json`` with a help text that names the content of the document."""
    return typer.Option("--json", help=f"Print one JSON document: {content}.")


REPORT_JSON = "an object with study, planned, done, failures (run, reason), analyses, deficits and report (the page)"
STUDY_JSON = f"{REPORT_JSON}; with --dry-run: runs, seconds and workers"

complete_task = completion(MODELS)
complete_schedule = completion((*TEN, "static:", "full"))

TaskName = Annotated[
    str,
    typer.Argument(
        help="A task (see 'bitcycle tasks'), or your own as FILE.py:CLASS or package.module:CLASS.",
        autocompletion=complete_task,
    ),
]
Bits = Annotated[
    tuple[int, int] | None, typer.Option(metavar="Q_MIN Q_MAX", help="q_min and q_max; default: set by the task.")
]
GridName = Annotated[
    str,
    typer.Option(
        help="What a width means: integer, symmetric, float, mx or nvfp4.",
        autocompletion=completion(("integer", "symmetric", "float", "mx", "nvfp4")),
    ),
]
Device = Annotated[str, typer.Option(help="The device to train on: cpu, cuda, ...")]

BackwardBits = Annotated[
    str,
    typer.Option(
        help="Bits of the gradients: a width, 'full', or a schedule; default: q_max; full precision in steps in which "
        "both operands are in full precision."
    ),
]
Weights = Annotated[str, typer.Option(help="A separate schedule for weights: a spec or a width.")]
Activations = Annotated[str, typer.Option(help="A separate schedule for activations: a spec or a width.")]
StrengthSpec = Annotated[
    str, typer.Option(help="The strength of quantisation, 0 to 1: a number, or a spec such as linear-rise.")
]

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
WorkerThreads = Annotated[int, typer.Option(help="Threads of each worker; 0 = its share of the cores.")]
EngineName = Annotated[EngineKind, typer.Option(help="Train on this machine, or on a Ray cluster.")]
Address = Annotated[str, typer.Option(help="Address of a Ray cluster; 'auto' finds one; default: start one here.")]
Gpus = Annotated[float, typer.Option(help="GPUs for each run on a cluster; can be a fraction.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Repeat failed runs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the runs, their cost and the estimated time, then exit.")]


def backward_of(text: str) -> int | str | None:
    """Return the bits of gradients that a text describes, with a schedule as its canonical spec.

    >>> backward_of(""), backward_of("8"), backward_of("full"), backward_of("CR:3-8")
    ('max', 8, None, 'CR:3-8:cycles=8')
    """
    if text in ("", "max"):
        return "max"
    if text.isdecimal():
        return int(text)
    return None if text == "full" else str(schedule(text))


def operand_of(text: str) -> str:
    """Return the canonical spec of an operand's schedule; a width is a static schedule.

    >>> operand_of("4"), operand_of("LR:3-8"), operand_of("")
    ('static:4', 'LR:3-8:cycles=8', '')
    """
    return str(schedule(f"static:{text}" if text.isdecimal() else text)) if text else ""


def strength_of(text: str) -> str:
    """Return the canonical spec of a strength.

    >>> strength_of("0.5"), strength_of("")
    ('0.5', '')
    """
    return str(strength(text)) if text else ""
