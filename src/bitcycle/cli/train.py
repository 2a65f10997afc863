"""``bitcycle train``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitcycle._study.exports import json_text, replacing
from bitcycle._study.queue import TRAINING_LOCK
from bitcycle._support.locks import FileLock
from bitcycle._support.text import short
from bitcycle.cli.parameters import (
    Activations,
    BackwardBits,
    BatchSize,
    Data,
    Device,
    GridName,
    Model,
    StrengthSpec,
    TaskName,
    TaskOptions,
    Weights,
    backward_of,
    complete_schedule,
    completion,
    json_option,
    operand_of,
    options_of,
    strength_of,
)
from bitcycle.schedules import complete
from bitcycle.schedules.base import positive

if TYPE_CHECKING:
    from bitcycle.experiments.result import RunResult
    from bitcycle.experiments.training import TrainingProgress

ENOUGH = 5  # progress updates after which the remaining time can be estimated


def train(
    task: TaskName,
    schedule: Annotated[
        str, typer.Option(help="A precision schedule, by name or as a spec.", autocompletion=complete_schedule)
    ] = "CR",
    bits: Annotated[
        tuple[int, int] | None,
        typer.Option(
            metavar="Q_MIN Q_MAX", help="q_min and q_max, unless the schedule has its own; default: set by the task."
        ),
    ] = None,
    cycles: Annotated[
        int | None, typer.Option(help="Number of cycles, unless the schedule has its own; default: set by the task.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps; default: set by the task.")] = None,
    preset: Annotated[str, typer.Option(help="Named settings, such as 'paper' (see 'bitcycle tasks').")] = "",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    data: Data = "",
    model: Model = "",
    backward_bits: BackwardBits = "",
    weights: Weights = "",
    activations: Activations = "",
    strength: StrengthSpec = "",
    batch_size: BatchSize = 0,
    grid: GridName = "integer",
    option: TaskOptions = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for checkpoints and the result; the same command resumes from the last checkpoint."),
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 100,
    device: Device = "cpu",
    autocast: Annotated[
        bool, typer.Option("--autocast", help="Train with autocast: accumulation and all other operations in bfloat16.")
    ] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the model with torch.compile.")] = False,
    execute: Annotated[
        str,
        typer.Option(
            help="How products are computed: simulated, integer, or auto (integer where it is faster).",
            autocompletion=completion(("auto", "simulated", "integer")),
        ),
    ] = "auto",
    log: Annotated[
        list[str] | None,
        typer.Option(
            help="Log to tensorboard, mlflow or wandb; repeatable.",
            autocompletion=completion(("tensorboard", "mlflow", "wandb")),
        ),
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads; 0 = torch's default.")] = 0,
    as_json: Annotated[
        bool,
        json_option(
            "an object with run (its configuration), metric, higher_is_better, test, validation, best_step, bitops, "
            "seconds, extra (further metrics), curve and versions, as in result.json"
        ),
    ] = False,
) -> None:
    """Train a task with a precision schedule."""
    import torch

    from bitcycle.experiments.run_config import RunConfig
    from bitcycle.experiments.tasks import task_named
    from bitcycle.experiments.tasks.own_tasks import run_identity
    from bitcycle.experiments.tasks.presets import preset_named
    from bitcycle.experiments.training import train as train_run

    if threads:
        torch.set_num_threads(threads)
    kind, options = task_named(task), options_of(option)
    identity = run_identity(kind, data)
    if preset:
        chosen = preset_named(kind.name, preset)
        if not identity["data"]:
            print(f"the preset is for {chosen.about}; without --data the data is {kind.embedded}", file=sys.stderr)
        bits, cycles = bits or chosen.bits, chosen.cycles if cycles is None else cycles
        options = {**chosen.options, **options}
        model, batch_size = model or chosen.model, batch_size or chosen.batch_size
        if steps is None and not chosen.steps:
            one_step = RunConfig(
                schedule="full", steps=1, model=model, batch_size=batch_size, options=options, **identity
            )
            steps = chosen.epochs * kind.prepare(one_step).steps_per_epoch
        steps = chosen.steps if steps is None else steps
    spec = str(complete(schedule, bits or kind.bits, kind.cycles if cycles is None else cycles))
    run = RunConfig(
        schedule=spec,
        steps=positive(kind.steps if steps is None else steps, "the number of steps"),
        seed=seed,
        backward_bits=backward_of(backward_bits),
        model=model,
        batch_size=batch_size,
        autocast=autocast,
        compiled=compiled,
        weights=operand_of(weights),
        activations=operand_of(activations),
        strength=strength_of(strength),
        grid=grid,
        options=options,
        **identity,
    )
    with _locked(out), _TrainingBar(run.steps, kind.metric) as bar:
        try:
            result, _ = train_run(run, out, bar.update, checkpoint_every, device, log or (), execute)
        except KeyboardInterrupt:
            bar.progress.stop()
            hint = "run the same command again to resume" if out else "use --out FOLDER to be able to resume"
            print(f"stopped after step {bar.step} of {run.steps}; {hint}", file=sys.stderr)
            raise typer.Exit(130) from None
    text = json_text(result)
    print(text if as_json else _line(result))
    if out is not None:
        path = out / "result.json"
        with replacing(path) as unfinished:
            unfinished.write_text(text + "\n", encoding="utf-8")
        print(f"written: {path}", file=sys.stderr if as_json else sys.stdout)


@contextmanager
def _locked(folder: Path | None) -> Iterator[None]:
    """Lock a folder against a second training in it."""
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock.take(folder / TRAINING_LOCK)
    if lock is None:
        raise ValueError(f"another process is training in {folder}: wait for it, or choose another folder")
    with lock:
        yield


def _line(result: RunResult) -> str:
    return (
        f"{result.run.task} {result.run.description} seed {result.run.seed}: test {result.metric} {result.test:.4f} "
        f"(validation {result.validation:.4f} at step {result.best_step}), "
        f"{short(int(result.bitops / 32**2))} effective MACs, {result.seconds:.1f} s"
    )


class _TrainingBar:
    """A progress bar with loss, metric, bits and cost, if stderr is a terminal."""

    def __init__(self, steps: int, metric: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.metric = metric
        self.timed: list[tuple[float, int]] = []
        self.step = 0
        console = Console(stderr=True)
        self.progress = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task("", total=steps)

    def __enter__(self) -> _TrainingBar:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def _estimate(self, steps: int) -> None:
        (start, first), (end, last) = self.timed[0], self.timed[-1]
        minutes = (end - start) / (last - first) * (steps - last) / 60
        if minutes >= 1:
            self.progress.console.print(f"estimated time: {minutes / 60:.1f} hours ({steps:,} steps)")

    def update(self, now: TrainingProgress) -> None:
        self.step = now.step
        if len(self.timed) < ENOUGH:
            self.timed.append((time.monotonic(), now.step))
            if len(self.timed) == ENOUGH:
                self._estimate(now.steps)
        metric = "" if now.metric is None else f"  {self.metric} {now.metric:.4f}"
        bits = "full" if now.bits is None else f"{now.bits} bits"
        cost = f"{short(int(now.bitops / 32**2))} MACs"
        self.progress.update(self.task, completed=now.step, description=f"loss {now.loss:.4f}{metric}  {bits}  {cost}")
