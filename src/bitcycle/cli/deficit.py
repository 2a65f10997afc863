"""``bitcycle deficit``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bitcycle.cli.parameters import (
    STORE,
    Address,
    BatchSize,
    Bits,
    Data,
    Device,
    DryRun,
    EngineName,
    Gpus,
    Model,
    ReportFolder,
    RetryFailed,
    Stored,
    TaskName,
    TaskOptions,
    Workers,
    WorkerThreads,
    options_of,
)  # fmt: skip
from bitcycle.cli.study import carry_out, engine_of
from bitcycle.cli.study_output import show


def deficit(
    task: TaskName,
    bits: Bits = None,
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
    model: Model = "",
    data: Data = "",
    batch_size: BatchSize = 0,
    option: TaskOptions = None,
    name: Annotated[str, typer.Option(help="Of the study; 'TASK-deficit' if not given.")] = "",
    store: Stored = STORE,
    out: ReportFolder = None,
    workers: Workers = 0,
    threads: WorkerThreads = 0,
    device: Device = "cpu",
    engine: EngineName = "local",
    address: Address = "",
    gpus: Gpus = 0.0,
    retry_failed: RetryFailed = False,
    dry_run: DryRun = False,
) -> None:
    """Probe critical learning periods: low precision early or late, with the controls a claim of damage needs."""
    from bitcycle._study.plan_file import plan_of

    values: dict[str, Any] = {
        "task": task,
        "lengths": _numbers(lengths),
        "window": window,
        "starts": _numbers(starts),
        "recovery": recovery,
        "seeds": seeds,
        "arms": [arm.strip() for arm in arms.split(",")],
        "diagnostics": measure,
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
