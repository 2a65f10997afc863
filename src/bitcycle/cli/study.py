"""``bitcycle study``, and how a plan is run with a progress bar."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitcycle._study.engines import EngineKind, engine_of
from bitcycle._study.exports import json_text
from bitcycle._study.plan import BASELINES, GROUPS, MAX_SEEDS
from bitcycle._study.progress import EndedRuns, status
from bitcycle._support.garbage import no_garbage_collection
from bitcycle._support.text import short, table
from bitcycle.cli.parameters import (
    MODELS,
    STORE,
    STUDY_JSON,
    Activations,
    Address,
    BackwardBits,
    BatchSize,
    Bits,
    Data,
    Device,
    DryRun,
    EngineName,
    Gpus,
    GridName,
    Margin,
    Model,
    ReportFolder,
    RetryFailed,
    StorePath,
    StrengthSpec,
    TaskOptions,
    Weights,
    Workers,
    WorkerThreads,
    backward_of,
    completion,
    json_option,
    operand_of,
    options_of,
    strength_of,
)  # fmt: skip
from bitcycle.cli.report import report_folder, write_and_print
from bitcycle.schedules import TEN

if TYPE_CHECKING:
    from bitcycle._study.driver import Engine, StudyProgress
    from bitcycle._study.plan import Plan


def _complete_subject(incomplete: str) -> list[str]:
    """Complete a task or the name of a plan file."""
    plans = sorted(str(path) for path in Path().glob("*.toml"))
    return completion([*MODELS, *plans])(incomplete)


def study(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK|PLAN",
            help="A task (see 'bitcycle tasks'), your own as FILE.py:CLASS or package.module:CLASS, or a TOML plan.",
            autocompletion=_complete_subject,
        ),
    ],
    schedules: Annotated[
        list[str] | None,
        typer.Option(
            help="A name, a spec, 'ten', 'baselines' or 'all' (the default); repeatable.",
            autocompletion=completion((*TEN, *BASELINES, *GROUPS)),
        ),
    ] = None,
    bits: Bits = None,
    cycles: Annotated[
        list[int] | None, typer.Option(help="Number of cycles; repeatable; default: set by the task.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds; default: 3.", max=MAX_SEEDS)] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of each run; default: set by the task.")] = None,
    model: Model = "",
    data: Data = "",
    batch_size: BatchSize = 0,
    option: TaskOptions = None,
    backward_bits: BackwardBits = "",
    weights: Weights = "",
    activations: Activations = "",
    strength: StrengthSpec = "",
    grid: GridName = "",
    name: Annotated[str, typer.Option(help="Name of the study; default: the name of the task or plan.")] = "",
    store: StorePath = STORE,
    out: ReportFolder = None,
    margin: Margin = None,
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
    """Compare schedules: train all schedules and baselines with several seeds in parallel, then write a report.

    To resume a study that was stopped, run the same command again.
    """
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
        "backward_bits": _in_plan(backward_of(backward_bits)) if backward_bits else None,
        "weights": operand_of(weights) or None,
        "activations": operand_of(activations) or None,
        "strength": strength_of(strength) or None,
        "grid": grid or None,
    }
    with no_garbage_collection() if dry_run else nullcontext():
        plan = _plan(task, {key: value for key, value in given.items() if value is not None}, name)
        plan.check()
        chosen = engine_of(engine, workers, threads, device, address, gpus)
        if dry_run:
            print_estimate(plan, store, chosen, as_json)
        else:
            run_and_report(plan, store, chosen, retry_failed, out, margin, as_json)


def _in_plan(backward: int | str | None) -> int | str:
    return "full" if backward is None else backward


def _plan(subject: str, given: dict[str, Any], name: str) -> Plan:
    """Return the plan of a task or of a file; values from the command line apply to all its parts."""
    from bitcycle._study.plan_file import plan_of, read_plan

    path = Path(subject)
    if path.suffix != ".toml":
        plan = plan_of({"task": subject, **given}, name)
        return plan if name else replace(plan, name=plan.parts[0].task)
    if not path.exists():
        raise ValueError(f"there is no plan {subject}")
    plan = read_plan(path, given)
    return replace(plan, name=name) if name else plan


def run_and_report(
    plan: Plan, store: Path, engine: Engine, retry_failed: bool, out: Path | None, margin: float | None, as_json: bool
) -> None:
    """Run a plan with a progress bar, write its report and print the results; exit with 1 if a run failed."""
    from bitcycle._study.driver import run_study
    from bitcycle._study.plan import check_data
    from bitcycle._study.store import Store

    command = shlex.join(["bitcycle", *sys.argv[1:]])
    if not store.exists():  # nothing is done yet
        check_data(plan.runs())
    with Store(store) as opened:
        with StudyBar() as bar:
            try:
                run_study(plan, opened, engine, command, retry_failed, bar.update)
            except KeyboardInterrupt:
                bar.close()
                print(f"stopped: {bar.status}. Run the same command again to resume.", file=sys.stderr)
                raise typer.Exit(130) from None
        print(bar.status, file=sys.stderr if as_json else sys.stdout)
        write_and_print(opened, plan.name, out or report_folder(store, plan.name), margin, as_json)
        failures = opened.failures(plan.runs())
    for failure in failures:
        print(f"failed: {failure.run.schedule} seed {failure.run.seed}: {failure.reason}", file=sys.stderr)
    if failures:
        where = "" if store == STORE else f" --store {shlex.quote(str(store))}"
        print(
            f"'bitcycle results --failed{where}' shows the tracebacks; --retry-failed repeats these runs",
            file=sys.stderr,
        )
        raise typer.Exit(1)


def print_estimate(plan: Plan, path: Path, engine: Engine, as_json: bool) -> None:
    """Print the runs of a plan, with the cost and duration of each."""
    import torch

    from bitcycle._study.estimate import estimate
    from bitcycle._study.format import count
    from bitcycle._study.store import Store

    workers = engine.worker_count or 1
    torch.set_num_threads(engine.thread_count)  # as in a worker
    done: set[str] = set()
    if path.exists():
        with Store(path) as store:
            done = store.done()
    estimates = estimate(plan.runs())
    missing = [each for each in estimates if each.run.name not in done]
    seconds = sum(each.seconds for each in missing) / min(workers, max(1, len(missing)))
    if as_json:
        described = [
            {
                **{
                    key: getattr(each.run, key)
                    for key in ("name", "task", "schedule", "seed", "steps", "learning_rate")
                },
                "bitops": each.bitops,
                "seconds": each.seconds,
                "done": each.run.name in done,
            }
            for each in estimates
        ]
        print(json_text({"runs": described, "seconds": seconds, "workers": workers}))
        return
    policies = any(each.run.learning_rate for each in estimates)
    rows = [
        [
            *(each.run.name, each.run.task, each.run.schedule, *([each.run.learning_rate] if policies else [])),
            *(str(each.run.seed), str(each.run.steps)),
            *(f"{short(each.bitops // 32**2)}", f"{each.seconds:.0f} s"),
            "done" if each.run.name in done else "",
        ]
        for each in estimates
    ]
    policy = ["learning rate"] if policies else []
    print(table(["run", "task", "schedule", *policy, "seed", "steps", "effective MACs", "time", ""], rows))
    todo = f"{count(len(rows), 'run')}, {len(missing)} to do"
    print(f"{todo}: about {_duration(seconds)} with {count(workers, 'worker')}")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class StudyBar:
    """A progress bar on stderr; if that is not a terminal, one line for each run that ends."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        self.progress = Progress(
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("remaining"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task("starting", total=None)
        self.status = "no run is done"
        self.ended = EndedRuns()

    def __enter__(self) -> StudyBar:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self.progress.stop()

    def update(self, now: StudyProgress) -> None:
        self.status = status(now)
        # Runs that were done before take no time, so they do not count in the estimate of the remaining time.
        self.progress.update(
            self.task,
            total=now.planned_steps - now.finished_steps_before,
            completed=now.current_steps - now.finished_steps_before,
            description=self.status,
        )
        if (line := self.ended.line(now)) is not None:
            self.progress.console.print(line, highlight=False, markup=False)
