"""``bitcycle study``."""

from __future__ import annotations

import re
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
from bitcycle.tables import short, table

if TYPE_CHECKING:
    from bitcycle.study.analysis import DeficitAnalysis
    from bitcycle.study.driver import Engine, Standing
    from bitcycle.study.plan import Plan
    from bitcycle.study.store import Store


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
    from bitcycle.study.driver import run_study
    from bitcycle.study.store import Store

    command = shlex.join(["bitcycle", *sys.argv[1:]])
    with Store(store) as opened:
        with _Bar() as bar:
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


def report_folder(store: Path, name: str) -> Path:
    """The folder of a study's report: its name, as far as a folder can be called so, beside the store."""
    return store.parent / (re.sub(r"[^\w.-]+", "-", name).strip(".-") or "study")


def print_report(store: Store, name: str, folder: Path) -> None:
    """Analyse a study, write its report, say what came out and where it is."""
    from bitcycle.study.reporting import report

    reported = report(store, name, folder)
    for analysis in reported.analyses:
        sign = "higher" if analysis.higher_is_better else "lower"
        print(f"\n{analysis.title}: {analysis.metric}, {sign} is better")
        rows = [
            [
                setting.label,
                f"{setting.quality.mean:.4f}",
                f"[{setting.quality.low:.4f}, {setting.quality.high:.4f}]",
                f"{100 * (1 - setting.relative_cost):.1f} %",
                str(setting.group or ""),
                setting.against.verdict if setting.against else "the baseline" if setting.baseline else "",
            ]
            for setting in analysis.settings
        ]
        print(table(["setting", "mean", "95 % interval", "saving", "group", "against the baseline"], rows))
        for claim in analysis.claims:
            print(f"- {claim.text} ({claim.verdict})")
    for deficit in reported.deficits:
        _print_deficit(deficit)
    print(f"\nreport: {folder / 'report.html'}")


def _print_deficit(found: DeficitAnalysis) -> None:
    sign = "higher" if found.higher_is_better else "lower"
    print(f"\n{found.title}: {found.metric}, {sign} is better")
    for heading, points in (("length", found.lengths), ("begins at", found.positions)):
        rows = [
            [
                *(f"{point.place:,} steps", point.arm, f"{point.quality.mean:.4f}"),
                f"[{point.quality.low:.4f}, {point.quality.high:.4f}]",
                point.loss.verdict if point.loss else "the control",
            ]
            for point in points
        ]
        if rows:
            print(table([heading, "arm", "mean", "95 % interval", "against the control"], rows))
    for claim in found.claims:
        print(f"- {claim.text} ({claim.verdict})")


def _plan(what: str, given: dict[str, Any], name: str) -> Plan:
    """The plan of a task, or of a file; what the command line gives holds for every part and every deficit."""
    import tomllib
    from dataclasses import replace

    from bitcycle.study.plan_file import DEFICIT_KEYS, plan_of, read_plan

    path = Path(what)
    if path.suffix != ".toml":
        return plan_of({"task": what, **given}, name or what)
    if not path.exists():
        raise ValueError(f"there is no plan {what}")
    plan = read_plan(path)
    if given:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        deficits = values.get("deficit", [])
        of_deficits = {key: value for key, value in given.items() if key in DEFICIT_KEYS}
        changed = {
            "part": [{**part, **given} for part in values.get("part", [] if deficits else [{}])],
            "deficit": [{**deficit, **of_deficits} for deficit in deficits],
        }
        if deficits and not changed["part"] and of_deficits != given:
            raise ValueError(
                f"deficits take no {', '.join(given.keys() - of_deficits.keys())}, and {what} has no [[part]]"
            )
        plan = plan_of({**values, **changed}, path.stem)
    return replace(plan, name=name) if name else plan


def engine_of(kind: str, workers: int, threads: int, device: str, address: str, gpus: float) -> Engine:
    """The engine that the command line asks for."""
    if kind == "ray":
        from bitcycle.study.cluster import RayEngine

        return RayEngine(address, max(1, threads), gpus)
    if kind != "local":
        raise ValueError(f"an engine is 'local' or 'ray', not {kind!r}")
    if address or gpus:
        raise ValueError("--address and --gpus are for --engine ray")
    from bitcycle.devices import check_device
    from bitcycle.study.local import LocalEngine

    check_device(device)
    return LocalEngine(workers, threads, device)


def show(plan: Plan, path: Path, engine: Engine) -> None:
    """The runs of a plan, what each costs and how long it would take."""
    import torch

    from bitcycle.study.estimate import estimate
    from bitcycle.study.store import Store

    workers = getattr(engine, "chosen_workers", 1)
    torch.set_num_threads(getattr(engine, "chosen_threads", 1))  # as a worker would
    done: set[str] = set()
    if path.exists():
        with Store(path) as store:
            done = store.done()
    estimates = estimate(plan.runs())
    rows = [
        [
            *(each.run.name, each.run.task, each.run.schedule, str(each.run.seed), str(each.run.steps)),
            *(f"{short(each.bitops // 32**2)}", f"{each.seconds:.0f} s"),
            "done" if each.run.name in done else "",
        ]
        for each in estimates
    ]
    print(table(["run", "task", "schedule", "seed", "steps", "effective MACs", "time", ""], rows))
    missing = [each for each in estimates if each.run.name not in done]
    seconds = sum(each.seconds for each in missing) / min(workers, max(1, len(missing)))
    print(f"{len(rows)} runs, {len(missing)} of them to do: about {_duration(seconds)} with {workers} workers")


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


class _Bar:
    """A live progress bar of a whole study; where there is no terminal, a line for each run that ends."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.progress = Progress(
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            transient=True,
        )
        self.task = self.progress.add_task("starting", total=None)
        self.said = "nothing is done"
        self.latest: object = None

    def __enter__(self) -> _Bar:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away."""
        self.progress.stop()

    def update(self, now: Standing) -> None:
        kept = f" ({now.kept} from before)" if now.kept else ""
        failed = f", {now.failed} failed" if now.failed else ""
        self.said = f"{now.done} of {now.runs} runs done{kept}{failed}"
        # What was there before takes no time, so it does not count in the estimate of what is left.
        self.progress.update(
            self.task,
            total=now.steps - now.steps_kept,
            completed=now.steps_now - now.steps_kept,
            description=self.said,
        )
        if now.latest is not None and now.latest is not self.latest:
            self.latest = now.latest
            run = now.latest.run
            came = f"{now.latest.test:.4f}" if hasattr(now.latest, "test") else "failed"
            self.progress.console.print(
                f"{now.done + now.failed:>4}/{now.runs}  {run.task} {run.schedule} seed {run.seed}: {came}",
                highlight=False,
                markup=False,
            )
