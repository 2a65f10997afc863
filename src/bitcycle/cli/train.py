"""``bitcycle train`` and ``bitcycle tasks``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitcycle.cli.parameters import BatchSize, Data, Device, Model, TaskName, TaskOptions, options_of
from bitcycle.schedules import complete
from bitcycle.schedules.base import positive

if TYPE_CHECKING:
    from bitcycle.experiments.result import RunResult
    from bitcycle.experiments.training import TrainingProgress

ENOUGH = 5  # steps after which the time of a training can be estimated


def train(
    task: TaskName,
    schedule: Annotated[str, typer.Option(help="A precision schedule, by name or as a spec.")] = "CR",
    bits: Annotated[
        tuple[int, int] | None, typer.Option(help="q_min and q_max if the schedule does not say; else the task's own.")
    ] = None,
    cycles: Annotated[int | None, typer.Option(help="Number of cycles, likewise.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of training; the task's own if not given.")] = None,
    preset: Annotated[str, typer.Option(help="Settings by name, such as 'paper': see 'bitcycle tasks'.")] = "",
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    data: Data = "",
    model: Model = "",
    backward_bits: Annotated[int | None, typer.Option(help="Width of the gradients; q_max if not given.")] = None,
    batch_size: BatchSize = 0,
    option: TaskOptions = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for checkpoints and the result; the same command goes on from there.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 100,
    device: Device = "cpu",
    autocast: Annotated[bool, typer.Option(help="Sums and everything else in bfloat16.")] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Train the model by torch.compile.")] = False,
    log: Annotated[list[str] | None, typer.Option(help="tensorboard, mlflow or wandb; can be repeated.")] = None,
    threads: Annotated[int, typer.Option(help="Threads of torch; 0 leaves its own choice.")] = 0,
) -> None:
    """Train a task on a precision schedule, with a live progress bar, a result line and a results file."""
    import torch

    from bitcycle.experiments.data.official import located
    from bitcycle.experiments.run_config import RunConfig
    from bitcycle.experiments.tasks import task_named
    from bitcycle.experiments.tasks.presets import preset_named
    from bitcycle.experiments.training import train as train_run

    if threads:
        torch.set_num_threads(threads)
    kind, options, data = task_named(task), options_of(option), located(data)
    if preset:
        chosen = preset_named(task, preset)
        if not data:
            print(f"the preset is for {chosen.about}; without --data it trains on {kind.embedded}", file=sys.stderr)
        bits, cycles = bits or chosen.bits, chosen.cycles if cycles is None else cycles
        options = {**chosen.options, **options}
        model, batch_size = model or chosen.model, batch_size or chosen.batch_size
        if steps is None and not chosen.steps:
            once = RunConfig(task, "full", 1, model=model, data=data, batch_size=batch_size, options=options)
            steps = chosen.epochs * kind.prepare(once).steps_per_epoch
        steps = chosen.steps if steps is None else steps
    spec = str(complete(schedule, bits or kind.bits, kind.cycles if cycles is None else cycles))
    backward = "max" if backward_bits is None else backward_bits
    run = RunConfig(
        task,
        spec,
        positive(kind.steps if steps is None else steps, "the number of steps"),
        seed,
        backward,
        model,
        data,
        batch_size,
        autocast,
        compiled,
        options=options,
    )
    with _Bar(run.steps, kind.metric) as bar:
        try:
            result, _ = train_run(run, out, bar.update, checkpoint_every, device, log or ())
        except KeyboardInterrupt:
            bar.progress.stop()
            again = "the same command goes on from its checkpoint" if out else "with --out FOLDER it could be resumed"
            print(f"stopped after step {bar.step} of {run.steps}; {again}", file=sys.stderr)
            raise typer.Exit(130) from None
    print(_line(result))
    if out is not None:
        path = out / "result.json"
        path.write_text(json.dumps(result.as_dict(), indent=2) + "\n")
        print(f"written: {path}")


def tasks() -> None:
    """List the tasks: their models, their metric, the embedded data and the official data they read."""
    from rich.console import Console

    from bitcycle.experiments.data.official import OFFICIAL
    from bitcycle.experiments.tasks import TASKS, task_named
    from bitcycle.experiments.tasks.presets import PRESETS

    def fetched_for(name: str) -> str:
        return ", ".join(official.name for official in OFFICIAL.values() if official.task == name)

    console = Console(highlight=False)
    for name in sorted(TASKS):
        task = task_named(name)
        better = "higher" if task.higher_is_better else "lower"
        console.print(f"[bold]{name}[/]: {task.about}; {task.metric}, {better} is better")
        for heading, text in (
            ("models", ", ".join(task.models)),
            *(("option", f"{key}={o.default}: {o.about}") for key, o in task.options.items()),
            ("embedded data", task.embedded),
            ("with --data FOLDER", task.official),
            ("with --data NAME", f"{fetched_for(name)} (first: bitcycle data get NAME)"),
            *(("preset", f"{key}: {preset.about}") for key, preset in PRESETS.get(name, {}).items()),
            ("default", f"{task.steps} steps, {task.bits[0]}-{task.bits[1]} bits, {task.cycles} cycles"),
        ):
            console.print(f"  {heading + ':':19} {text}", soft_wrap=True)


def _line(result: RunResult) -> str:
    effective = result.bitops / 32**2 / 1e9
    return (
        f"{result.run.task} {result.run.schedule} seed {result.run.seed}: test {result.metric} {result.test:.4f} "
        f"(validation {result.validation:.4f} at step {result.best_step}), {effective:,.2f} effective GMACs, "
        f"{result.seconds:.1f} s"
    )


class _Bar:
    """A live progress bar with loss, metric, bits and cost so far."""

    def __init__(self, steps: int, metric: str) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.metric = metric
        self.seen: list[tuple[float, int]] = []
        self.step = 0
        self.progress = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            transient=True,
        )
        self.task = self.progress.add_task("", total=steps)

    def __enter__(self) -> _Bar:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def _estimate(self, steps: int) -> None:
        (begun, first), (ended, last) = self.seen[0], self.seen[-1]
        minutes = (ended - begun) / (last - first) * (steps - last) / 60
        if minutes >= 1:
            self.progress.console.print(f"estimated time: {minutes / 60:.1f} hours ({steps:,} steps)")

    def update(self, now: TrainingProgress) -> None:
        self.step = now.step
        if len(self.seen) < ENOUGH:
            self.seen.append((time.monotonic(), now.step))
            if len(self.seen) == ENOUGH:
                self._estimate(now.steps)
        metric = "" if now.metric is None else f"  {self.metric} {now.metric:.4f}"
        bits = "full" if now.bits is None else f"{now.bits} bits"
        cost = f"{now.bitops / 32**2 / 1e9:,.1f} GMACs"
        self.progress.update(self.task, completed=now.step, description=f"loss {now.loss:.4f}{metric}  {bits}  {cost}")
