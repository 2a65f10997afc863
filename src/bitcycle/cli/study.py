"""``bitcycle study``, and how a plan is run with a progress bar."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitcycle._support.text import short, table
from bitcycle.cli.parameters import (
    MODELS,
    STORE,
    STUDY_JSON,
    Address,
    Bits,
    Device,
    DryRun,
    EngineName,
    Gpus,
    Margin,
    ReportFolder,
    RetryFailed,
    StorePath,
    Workers,
    WorkerThreads,
    completion,
    json_option,
)  # fmt: skip
from bitcycle.cli.progress import ProgressBar
from bitcycle.cli.report import report_folder, write_and_print
from bitcycle.cli.run_options import with_run_options
from bitcycle.lab.studies.engines import EngineKind, engine_of
from bitcycle.lab.studies.exports import json_text
from bitcycle.lab.studies.plan import BASELINES, GROUPS, MAX_SEEDS
from bitcycle.lab.studies.progress import EndedRuns, status
from bitcycle.schedules import TEN

if TYPE_CHECKING:
    from bitcycle.lab.studies.driver import Engine, StudyProgress
    from bitcycle.lab.studies.plan import Plan


def _complete_subject(incomplete: str) -> list[str]:
    """Complete a task or the name of a plan file."""
    plans = sorted(str(path) for path in Path().glob("*.toml"))
    return completion([*MODELS, *plans])(incomplete)


@with_run_options(several=True)
def study(
    *,
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
    fields: dict[str, Any],
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
    given = {"schedules": schedules, "bits": list(bits) if bits else None, "cycles": cycles, "seeds": seeds}
    given = {key: value for key, value in given.items() if value is not None} | fields
    plan = _plan(task, given, name)
    chosen = engine_of(engine, workers, threads, device, address, gpus)
    if dry_run:
        print_estimate(plan, store, chosen, as_json)
    else:
        run_and_report(plan, store, chosen, retry_failed, out, margin, as_json)


def _plan(subject: str, given: dict[str, Any], name: str) -> Plan:
    """Return the plan of a task or of a file; values from the command line apply to all its parts."""
    from bitcycle.lab.studies.plan_file import plan_of, read_plan

    path = Path(subject)
    if path.suffix != ".toml":
        return plan_of({"task": subject, **given}, name)
    if not path.exists():
        raise ValueError(f"there is no plan {subject}")
    plan = read_plan(path, given)
    return replace(plan, name=name) if name else plan


def run_and_report(
    plan: Plan, store: Path, engine: Engine, retry_failed: bool, out: Path | None, margin: float | None, as_json: bool
) -> None:
    """Run a plan with a progress bar, write its report and print the results; exit with 1 if a run failed."""
    from bitcycle.lab.studies.driver import run_study
    from bitcycle.lab.studies.plan import check_data
    from bitcycle.lab.studies.store import Store

    command = shlex.join(["bitcycle", *sys.argv[1:]])
    if not store.exists():  # nothing is done yet
        check_data(plan.runs())
    with Store(store) as opened:
        with StudyBar() as bar:
            try:
                run_study(plan, opened, engine, command, retry_failed, bar.follow)
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

    from bitcycle.lab.format import count
    from bitcycle.lab.studies.estimate import estimate
    from bitcycle.lab.studies.store import Store

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


class StudyBar(ProgressBar):
    """The progress of a study; if stderr is not a terminal, one line for each run that ends."""

    def __init__(self) -> None:
        super().__init__(description="starting")
        self.status = "no run is done"
        self.ended = EndedRuns()

    def follow(self, now: StudyProgress) -> None:
        """Show the progress."""
        self.status = status(now)
        # Runs that were done before take no time, so they do not count in the estimate of the remaining time.
        before = now.finished_steps_before
        self.update(now.current_steps - before, now.planned_steps - before, self.status)
        if (line := self.ended.line(now)) is not None:
            self.print(line)
