"""``bitcycle train``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bitcycle.cli.parameters import Bits, Device, TaskName, complete_schedule, json_option, option
from bitcycle.cli.run_options import parse_fields, with_run_options
from bitcycle.lab.format import duration, short
from bitcycle.lab.locks import try_lock, unlock
from bitcycle.lab.schedule_summary import complete
from bitcycle.lab.studies.exports import json_text, replacing
from bitcycle.lab.studies.queue import TRAINING_LOCK

if TYPE_CHECKING:
    from bitcycle.lab.runs.result import RunResult


@with_run_options()
def train(
    *,
    task: TaskName,
    schedule: Annotated[str, option("A precision schedule, by name or as a spec.", complete=complete_schedule)] = "CR",
    bits: Bits = None,
    cycles: Annotated[
        int | None, option("Number of cycles, unless the schedule has its own; default: set by the task.")
    ] = None,
    preset: Annotated[str, option("Named settings, such as 'paper' (see 'bitcycle tasks').")] = "",
    seed: Annotated[int, option("Random seed.")] = 0,
    fields: dict[str, Any],
    out: Annotated[
        Path | None, option("Folder for checkpoints and the result; the same command resumes from the last checkpoint.")
    ] = None,
    checkpoint_every: Annotated[int, option("Steps between checkpoints.")] = 100,
    device: Device = "cpu",
    execute: Annotated[
        str,
        option(
            "How products are computed: simulated, integer, or auto (integer where it is faster).",
            complete=("auto", "simulated", "integer"),
        ),
    ] = "auto",
    log: Annotated[
        list[str] | None,
        option("Log to tensorboard, mlflow or wandb; repeatable.", complete=("tensorboard", "mlflow", "wandb")),
    ] = None,
    threads: Annotated[int, option("Threads; 0 = torch's default.")] = 0,
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

    from bitcycle.cli.progress import RESUME, TrainingBar
    from bitcycle.lab.built_in_tasks import preset_named
    from bitcycle.lab.runs.run_config import RunConfig
    from bitcycle.lab.runs.training import train as train_run
    from bitcycle.lab.tasks import task_named
    from bitcycle.lab.tasks.user_tasks import run_identity

    if threads:
        torch.set_num_threads(threads)
    place = out and out.absolute()  # a task may change the working directory
    kind = task_named(task)
    identity = run_identity(kind, fields.pop("data", ""))
    given = parse_fields(fields)
    if preset:
        chosen = preset_named(kind.name, preset)
        if not identity["data"]:
            print(f"the preset is for {chosen.about}; without --data the data is {kind.embedded}", file=sys.stderr)
        bits, cycles = bits or chosen.bits, chosen.cycles if cycles is None else cycles
        options = {**chosen.options, **given.get("options", {})}
        given = {"model": chosen.model, "batch_size": chosen.batch_size, **given, "options": options}
        if "steps" not in given:
            one_step = RunConfig(schedule="full", **identity, **given, steps=1)
            given["steps"] = chosen.steps or chosen.epochs * kind.prepare(one_step).steps_per_epoch
    spec = str(complete(schedule, bits or kind.bits, kind.cycles if cycles is None else cycles))
    run = RunConfig(schedule=spec, seed=seed, **identity, **{"steps": kind.steps, **given})
    resume = RESUME if out else "Use --out FOLDER to be able to resume."
    with ExitStack() as stack:
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
            if (lock := try_lock(place / TRAINING_LOCK)) is None:
                raise ValueError(f"another process is training in {place}: wait for it, or choose another folder")
            stack.callback(unlock, lock)
        bar = stack.enter_context(TrainingBar(run.steps, kind.metric, resume))
        result, _ = train_run(run, place, bar.follow, checkpoint_every, device, log or (), execute)
    text = json_text(result)
    print(text if as_json else _line(result))
    if place is not None and out is not None:
        with replacing(place / "result.json") as unfinished:
            unfinished.write_text(text + "\n", encoding="utf-8")
        print(f"written: {out / 'result.json'}", file=sys.stderr if as_json else sys.stdout)


def _line(result: RunResult) -> str:
    return (
        f"{result.run.task} {result.run.description} seed {result.run.seed}: test {result.metric} {result.test:.4f} "
        f"(validation {result.validation:.4f} at step {result.best_step}), "
        f"{short(int(result.bitops / 32**2))} effective MACs, {duration(result.seconds)}"
    )
