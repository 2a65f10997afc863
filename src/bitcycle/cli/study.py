"""``bitcycle study``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    TaskOptions,
    Workers,
    WorkerThreads,
    options_of,
)  # fmt: skip
from bitcycle.cli.study_bar import StudyBar
from bitcycle.cli.study_output import print_report, report_folder, show

if TYPE_CHECKING:
    from bitcycle._study.driver import Engine
    from bitcycle._study.plan import Plan


def study(
    what: Annotated[str, typer.Argument(metavar="TASK|PLAN", help="A task (see 'bitcycle tasks') or a plan.toml.")],
    schedules: Annotated[
        list[str] | None, typer.Option(help="Names, specs, 'ten', 'baselines' or 'all' (the default); repeatable.")
    ] = None,
    bits: Bits = None,
    cycles: Annotated[list[int] | None, typer.Option(help="Number of cycles; can be repeated.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds; 3 if nothing says.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of each run; the task's own if not given.")] = None,
    model: Model = "",
    data: Data = "",
    batch_size: BatchSize = 0,
    option: TaskOptions = None,
    name: Annotated[str, typer.Option(help="Of the study; the task's or the plan's if not given.")] = "",
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
    """Run a study: schedules, baselines and seeds in parallel; resumable; ends in a report."""
    given = {
        "schedules": schedules,
        "bits": list(bits) if bits else None,
        "cycles": cycles,
        "seeds": seeds,
        "steps": steps,
        "model": model or None,
        "data": data or None,
        "batch_size": batch_size or None,
        "options": options_of(option) or None,
    }
    plan = _plan(what, {key: value for key, value in given.items() if value is not None}, name)
    plan.check()
    chosen = engine_of(engine, workers, threads, device, address, gpus)
    if dry_run:
        show(plan, store, chosen)
    else:
        carry_out(plan, store, chosen, retry_failed, out)


def carry_out(plan: Plan, store: Path, engine: Engine, retry_failed: bool, out: Path | None) -> None:
    """Run a plan with a progress bar, write its report, and say what came of it."""
    from bitcycle._study.driver import run_study
    from bitcycle._study.store import Store

    command = shlex.join(["bitcycle", *sys.argv[1:]])
    with Store(store) as opened:
        with StudyBar() as bar:
            try:
                run_study(plan, opened, engine, command, retry_failed, bar.update)
            except KeyboardInterrupt:
                bar.close()
                print(f"stopped: {bar.said}. The same command goes on from here.", file=sys.stderr)
                raise typer.Exit(130) from None
        failed = opened.failures(plan.runs())
        print(bar.said)
        folder = out or report_folder(store, plan.name)
        print_report(opened, plan.name, folder)
    for failure in failed:
        print(f"failed: {failure.run.schedule} seed {failure.run.seed}: {failure.reason}", file=sys.stderr)
    if failed:
        where = "" if store == STORE else f" --store {shlex.quote(str(store))}"
        print(
            f"'bitcycle results --failed{where}' shows the tracebacks; --retry-failed runs them again", file=sys.stderr
        )
        raise typer.Exit(1)


def _plan(what: str, given: dict[str, Any], name: str) -> Plan:
    """The plan of a task, or of a file; what the command line gives holds for every part and every deficit."""
    from dataclasses import replace

    from bitcycle._study.plan_file import plan_of, read_plan

    path = Path(what)
    if path.suffix != ".toml":
        return plan_of({"task": what, **given}, name or what)
    if not path.exists():
        raise ValueError(f"there is no plan {what}")
    plan = read_plan(path, given)
    return replace(plan, name=name) if name else plan


def engine_of(kind: str, workers: int, threads: int, device: str, address: str, gpus: float) -> Engine:
    """The engine that the command line asks for."""
    if kind == "ray":
        from bitcycle._study.engines.cluster import RayEngine

        return RayEngine(address, max(1, threads), gpus)
    if kind != "local":
        raise ValueError(f"an engine is 'local' or 'ray', not {kind!r}")
    if address or gpus:
        raise ValueError("--address and --gpus are for --engine ray")
    from bitcycle._study.engines.local import LocalEngine
    from bitcycle.experiments.training import check_device

    check_device(device)
    return LocalEngine(workers, threads, device)
