"""``bitcycle deficit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bitcycle.cli.study import STORE, Stored, carry_out, engine_of, show
from bitcycle.cli.train import options_of


def deficit(
    task: Annotated[str, typer.Argument(help="A task, see 'bitcycle tasks'.")],
    bits: Annotated[tuple[int, int] | None, typer.Option(help="q_min and q_max; the task's own if not given.")] = None,
    steps: Annotated[int | None, typer.Option(help="Of a normal training; the task's own if not given.")] = None,
    lengths: Annotated[str, typer.Option(help="Of initial deficits, in normal trainings.")] = "0,0.25,0.5,1,2",
    window: Annotated[float, typer.Option(help="Length of the sliding window, likewise; 0: none.")] = 0.5,
    starts: Annotated[str, typer.Option(help="Where the window begins, likewise.")] = "0,0.25,0.5,0.75",
    recovery: Annotated[
        str, typer.Option(help="After the window: the 'rest' of a normal training, or a 'whole' one.")
    ] = ("rest"),
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 5,
    arms: Annotated[str, typer.Option(help="held, restarted (controls the learning rate), longer (no deficit).")] = (
        "held,restarted,longer"
    ),
    measure: Annotated[bool, typer.Option(help="Fisher information, gradient noise and more along training.")] = True,
    model: Annotated[str, typer.Option(help="One of the task's models.")] = "",
    data: Annotated[str, typer.Option(help="A folder with official data, or the name of a fetched data set.")] = "",
    batch_size: Annotated[int, typer.Option(help="0: the task's own.")] = 0,
    option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, an option of the task; repeatable.")] = None,
    name: Annotated[str, typer.Option(help="Of the study; 'TASK-deficit' if not given.")] = "",
    store: Stored = STORE,
    out: Annotated[Path | None, typer.Option(help="Folder of the report; beside the store if not given.")] = None,
    workers: Annotated[int, typer.Option(help="Processes at once; 0: one a core.")] = 0,
    threads: Annotated[int, typer.Option(help="Threads of each; 0: its share of the cores.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    engine: Annotated[str, typer.Option(help="'local', or 'ray' for a cluster.")] = "local",
    address: Annotated[str, typer.Option(help="Of a Ray cluster; 'auto' finds it; empty starts one here.")] = "",
    gpus: Annotated[float, typer.Option(help="GPUs for each run on a cluster; may be a fraction.")] = 0.0,
    retry_failed: Annotated[bool, typer.Option(help="Run again what failed before.")] = False,
    dry_run: Annotated[
        bool, typer.Option(help="Show the runs, their cost and the estimated time; run nothing.")
    ] = False,
) -> None:
    """Probe critical learning periods: low precision early or late, with the controls a claim of damage needs."""
    from bitcycle.study.plan_file import plan_of

    values: dict[str, Any] = {
        "task": task,
        "lengths": _numbers(lengths),
        "window": window,
        "starts": _numbers(starts),
        "recovery": recovery,
        "seeds": seeds,
        "arms": [arm.strip() for arm in arms.split(",")],
        "measured": measure,
        "model": model,
        "data": data,
        "batch_size": batch_size,
        "options": options_of(option),
    }
    values |= {key: value for key, value in (("bits", bits), ("steps", steps)) if value is not None}
    plan = plan_of({"deficit": [values]}, name or f"{task}-deficit")
    plan.check()
    chosen = engine_of(engine, workers, threads, device, address, gpus)
    if dry_run:
        show(plan, store, chosen)
    else:
        carry_out(plan, store, chosen, retry_failed, out)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"a list of numbers such as 0,0.5,1 was expected, not {text!r}") from None
