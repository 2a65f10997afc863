"""``bitcycle deficit``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from bitcycle.cli.parameters import (
    STORE,
    STUDY_JSON,
    Address,
    Bits,
    Device,
    DryRun,
    EngineName,
    Gpus,
    ReportFolder,
    RetryFailed,
    StorePath,
    TaskName,
    Workers,
    WorkerThreads,
    json_option,
)  # fmt: skip
from bitcycle.cli.run_options import with_run_options
from bitcycle.cli.study import print_estimate, run_and_report
from bitcycle.lab.studies.deficits import FIXED, Recovery
from bitcycle.lab.studies.engines import EngineKind, engine_of
from bitcycle.lab.studies.plan import MAX_SEEDS


@with_run_options(leave_out=FIXED)
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
    from bitcycle.lab.studies.plan_file import plan_of

    values: dict[str, Any] = {
        "task": task,
        "lengths": _numbers(lengths, "--lengths"),
        "window": window,
        "starts": _numbers(starts, "--starts"),
        "recovery": recovery,
        "seeds": seeds,
        "arms": [arm.strip() for arm in arms.split(",")],
        **fields,
    }
    if bits is not None:
        values["bits"] = bits
    plan = plan_of({"deficit": [values]}, name)
    plan = plan if name else replace(plan, name=f"{plan.name}-deficit")
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
