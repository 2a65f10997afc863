"""``bitcycle study``, and how a plan is run with a progress bar."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitcycle._support.text import table
from bitcycle.cli.parameters import (
    REPORT_JSON,
    STORE,
    Bits,
    Device,
    Margin,
    ReportFolder,
    StorePath,
    Workers,
    argument,
    completion,
    json_option,
    option,
)
from bitcycle.cli.report import write_and_print
from bitcycle.cli.run_options import with_run_options
from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.lab.format import count, duration, short
from bitcycle.lab.studies.engines import EngineKind, engine_of
from bitcycle.lab.studies.exports import json_text
from bitcycle.lab.studies.plan import BASELINES, GROUPS, MAX_SEEDS
from bitcycle.schedules import TEN

if TYPE_CHECKING:
    from bitcycle.lab.studies.driver import Engine
    from bitcycle.lab.studies.plan import Plan


@dataclass(frozen=True)
class StudyOptions:
    """How a study is run and reported: the options of the commands that run one."""

    store: StorePath = STORE
    out: ReportFolder = None
    workers: Workers = 0
    threads: Annotated[int, option("Threads of each worker; 0 = its share of the cores.")] = 0
    device: Device = "cpu"
    engine: Annotated[EngineKind, option("Train on this machine, or on a Ray cluster.")] = EngineKind.LOCAL
    address: Annotated[str, option("Address of a Ray cluster; 'auto' finds one; default: start one here.")] = ""
    gpus: Annotated[float, option("GPUs for each run on a cluster; can be a fraction.")] = 0.0
    retry_failed: Annotated[bool, option("Repeat failed runs.", "--retry-failed")] = False
    dry_run: Annotated[bool, option("Show the runs, their cost and the estimated time, then exit.", "--dry-run")] = (
        False
    )
    as_json: Annotated[bool, json_option(f"{REPORT_JSON}; with --dry-run: runs, seconds and workers")] = False


def _complete_subject(incomplete: str) -> list[str]:
    """Complete a task or the name of a plan file."""
    plans = sorted(str(path) for path in Path().glob("*.toml"))
    return completion([*BUILT_IN, *plans])(incomplete)


@with_run_options(several=True)
def study(
    *,
    task: Annotated[
        str,
        argument(
            "A task (see 'bitcycle tasks'), your own as FILE.py:CLASS or package.module:CLASS, or a TOML plan.",
            metavar="TASK|PLAN",
            complete=_complete_subject,
        ),
    ],
    schedules: Annotated[
        list[str] | None,
        option(
            "A name, a spec, 'ten', 'baselines' or 'all' (the default); repeatable.",
            complete=(*TEN, *BASELINES, *GROUPS),
        ),
    ] = None,
    bits: Bits = None,
    cycles: Annotated[list[int] | None, option("Number of cycles; repeatable; default: set by the task.")] = None,
    seeds: Annotated[int | None, option("Number of seeds; default: 3.", max=MAX_SEEDS)] = None,
    fields: dict[str, Any],
    name: Annotated[str, option("Name of the study; default: the name of the task or plan.")] = "",
    margin: Margin = None,
    options: StudyOptions,
) -> None:
    """Compare schedules: train all schedules and baselines with several seeds in parallel, then write a report.

    To resume a study that was stopped, run the same command again.
    """
    from bitcycle.lab.studies.plan_file import plan_of, read_plan

    given = {"schedules": schedules, "bits": bits and list(bits), "cycles": cycles, "seeds": seeds}
    given = {key: value for key, value in given.items() if value is not None} | fields
    path = Path(task)
    if path.suffix != ".toml":
        plan = plan_of({"task": task, **given}, name)
    elif not path.exists():
        raise ValueError(f"there is no plan {task}")
    else:
        plan = read_plan(path, given)  # values from the command line apply to all its parts
        plan = replace(plan, name=name) if name else plan
    run_plan(plan, options, margin)


def run_plan(plan: Plan, options: StudyOptions, margin: float | None = None) -> None:
    """Run a plan with a progress bar, write its report and print the results; exit with 1 if a run failed."""
    engine = engine_of(options.engine, options.workers, options.threads, options.device, options.address, options.gpus)
    if options.dry_run:
        _print_estimate(plan, options, engine)
        return
    from bitcycle.cli.progress import StudyBar
    from bitcycle.lab.studies.driver import run_study
    from bitcycle.lab.studies.plan import check_data
    from bitcycle.lab.studies.store import Store

    store = options.store
    command = shlex.join(["bitcycle", *sys.argv[1:]])
    if not store.exists():  # nothing is done yet
        check_data(plan.runs())
    with Store(store) as opened:
        with StudyBar() as bar:
            run_study(plan, opened, engine, command, options.retry_failed, bar.follow)
        print(bar.status, file=sys.stderr if options.as_json else sys.stdout)
        failures = write_and_print(opened, plan.name, options.out, margin, options.as_json).failures
    if failures:
        where = "" if store == STORE else f" --store {shlex.quote(str(store))}"
        hint = f"'bitcycle results --failed{where}' shows the tracebacks; --retry-failed repeats these runs"
        print(hint, file=sys.stderr)
        raise typer.Exit(1)


def _print_estimate(plan: Plan, options: StudyOptions, engine: Engine) -> None:
    """Print the runs of a plan, with the cost and duration of each."""
    import torch

    from bitcycle.lab.studies.estimate import estimate
    from bitcycle.lab.studies.store import Store

    workers = engine.worker_count or 1
    torch.set_num_threads(engine.thread_count)  # as in a worker
    done: set[str] = set()
    if options.store.exists():
        with Store(options.store) as store:
            done = store.done()
    columns = ("name", "task", "schedule", "learning_rate", "seed", "steps")
    rows = [
        {
            **{name: getattr(each.run, name) for name in columns},
            "bitops": each.bitops,
            "seconds": each.seconds,
            "done": each.run.name in done,
        }
        for each in estimate(plan.runs())
    ]
    missing = [row["seconds"] for row in rows if not row["done"]]
    seconds = sum(missing) / min(workers, max(1, len(missing)))
    if options.as_json:
        print(json_text({"runs": rows, "seconds": seconds, "workers": workers}))
        return
    shown = [name for name in columns if name != "learning_rate" or any(row[name] for row in rows)]
    cells = [
        [
            *(str(row[name]) for name in shown),
            *(short(row["bitops"] // 32**2), duration(row["seconds"]), "done" if row["done"] else ""),
        ]
        for row in rows
    ]
    headings = [name.replace("_", " ") for name in ("run", *shown[1:])]
    print(table([*headings, "effective MACs", "time", ""], cells))
    todo = f"{count(len(rows), 'run')}, {len(missing)} to do"
    print(f"{todo}: about {duration(seconds)} with {count(workers, 'worker')}")
