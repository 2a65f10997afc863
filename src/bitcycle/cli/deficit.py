"""``bitcycle deficit``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from bitcycle.cli.parameters import Bits, TaskName
from bitcycle.cli.run_options import with_run_options
from bitcycle.cli.study import StudyOptions, run_plan
from bitcycle.lab.runs.run_config import KEYWORDS
from bitcycle.lab.studies.deficits import FIXED, Recovery
from bitcycle.lab.studies.plan import MAX_SEEDS


@with_run_options(fields=KEYWORDS.keys() - FIXED)
def deficit(
    *,
    task: TaskName,
    bits: Bits = None,
    lengths: Annotated[str, typer.Option(help="Lengths of the initial deficit, in units of a normal run.")] = (
        "0,0.25,0.5,1,2"
    ),
    window: Annotated[
        float, typer.Option(help="Length of the sliding window, in units of a normal run; 0 = no sliding window.")
    ] = 0.5,
    starts: Annotated[str, typer.Option(help="Where the window begins, in units of a normal run.")] = "0,0.25,0.5,0.75",
    recovery: Annotated[
        Recovery, typer.Option(help="After the window: the rest of the normal run, or a whole one.")
    ] = Recovery.REST,
    seeds: Annotated[int, typer.Option(help="Number of seeds.", max=MAX_SEEDS)] = 5,
    arms: Annotated[
        str,
        typer.Option(
            help="held (learning rate held during the deficit), restarted (learning rate restarted after it), "
            "longer (the control without a deficit)."
        ),
    ] = "held,restarted,longer",
    fields: dict[str, Any],
    name: Annotated[str, typer.Option(help="Name of the study; default: 'TASK-deficit'.")] = "",
    options: StudyOptions,
) -> None:
    """Probe critical learning periods: low precision early or late in training, with the necessary controls."""
    from bitcycle.lab.studies.plan_file import plan_of

    values: dict[str, Any] = {
        "task": task,
        "lengths": _numbers(lengths, "--lengths"),
        "window": window,
        "starts": _numbers(starts, "--starts"),
        "recovery": recovery,
        "seeds": seeds,
        "arms": [arm.strip() for arm in arms.split(",")],
        **({} if bits is None else {"bits": bits}),
        **fields,
    }
    plan = plan_of({"deficit": [values]}, name)
    run_plan(plan if name else replace(plan, name=f"{plan.name}-deficit"), options)


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be a list of numbers such as 0,0.5,1, got {text!r}") from None
