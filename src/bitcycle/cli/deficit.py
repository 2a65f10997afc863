"""``bitcycle deficit``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from bitcycle._study.deficits import Recovery
from bitcycle._study.engines import EngineKind, engine_of
from bitcycle._study.plan import MAX_SEEDS
from bitcycle.cli.parameters import (
    STORE,
    STUDY_JSON,
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
    StorePath,
    TaskName,
    TaskOptions,
    Workers,
    WorkerThreads,
    json_option,
    options_of,
)  # fmt: skip
from bitcycle.cli.study import print_estimate, run_and_report


def deficit(
    task: TaskName,
    bits: Bits = None,
    steps: Annotated[int | None, typer.Option(help="Steps of a normal run; default: set by the task.")] = None,
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
    diagnostics: Annotated[
        bool, typer.Option(help="Measure Fisher information, gradient noise and more during training.")
    ] = True,
    model: Model = "",
    data: Data = "",
    batch_size: BatchSize = 0,
    option: TaskOptions = None,
    name: Annotated[str, typer.Option(help="Name of the study; default: 'TASK-deficit'.")] = "",
    store: StorePath = STORE,
    out: ReportFolder = None,
    workers: Workers = 0,
    threads: WorkerThreads = 0,
    device: Device = "cpu",
    engine: EngineName = EngineKind.LOCAL,
    address: Address = "",
    gpus: Gpus = 0.0,
    retry_failed: RetryFailed = False,
    dry_run: DryRun = False,
    as_json: Annotated[bool, json_option(STUDY_JSON)] = False,
) -> None:
    """Probe critical learning periods: low precision early or late in training, with the necessary controls."""
    from bitcycle._study.plan_file import plan_of

    values: dict[str, Any] = {
        "task": task,
        "lengths": _numbers(lengths, "--lengths"),
        "window": window,
        "starts": _numbers(starts, "--starts"),
        "recovery": recovery,
        "seeds": seeds,
        "arms": [arm.strip() for arm in arms.split(",")],
        "diagnostics": diagnostics,
        "model": model,
        "data": data,
        "batch_size": batch_size,
        "options": options_of(option),
    }
    values |= {key: value for key, value in (("bits", bits), ("steps", steps)) if value is not None}
    plan = plan_of({"deficit": [values]}, name)
    plan = plan if name else replace(plan, name=f"{plan.parts[0].task}-deficit")
    plan.check()
    chosen = engine_of(engine, workers, threads, device, address, gpus)
    if dry_run:
        print_estimate(plan, store, chosen, as_json)
    else:
        run_and_report(plan, store, chosen, retry_failed, out, None, as_json)


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be a list of numbers such as 0,0.5,1, got {text!r}") from None
