"""``python -m benchmarks.speed``."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common import run_commands
from benchmarks.speed.measure import Part, Settings, peak_memory, time_kernels, time_overhead, time_steps
from benchmarks.speed.models import MODELS
from benchmarks.speed.tables import Result, as_text, this_machine
from bitcycle import __version__
from bitcycle._support.names import validate_name
from bitcycle.lab.format import count
from bitcycle.lab.studies.exports import json_text
from bitcycle.schedules.base import MAX_BITS

FULL_ROUNDS, QUICK_ROUNDS = 15, 2
SIZES, QUICK_SIZES = (2**16, 2**22), (2**14,)
"""The numbers of elements that are rounded: what fits in the caches of a core, and what does not."""


def bench(
    models: Annotated[
        list[str] | None, typer.Option(help=f"A model: {', '.join(MODELS)}; repeatable; default: all.")
    ] = None,
    part: Annotated[list[Part] | None, typer.Option(help="What to measure; repeatable; default: everything.")] = None,
    forward: Annotated[int, typer.Option(min=1, max=MAX_BITS, help="Bit-width of weights and activations.")] = 7,
    backward: Annotated[int, typer.Option(min=1, max=MAX_BITS, help="Bit-width of the gradients.")] = 8,
    rounds: Annotated[
        int | None, typer.Option(min=1, help=f"Timed rounds; default: {FULL_ROUNDS}, with --quick {QUICK_ROUNDS}.")
    ] = None,
    threads: Annotated[
        list[int] | None, typer.Option(min=1, help="Number of threads; repeatable; default: 1, and one per core.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure small versions of everything, to see that it runs.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables in Markdown.")] = False,
    json: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|-",
            help="Write one JSON document to a file, or print it (-) instead of the tables: an object with bitcycle, "
            "machine, settings, steps, memory, kernels and overhead.",
        ),
    ] = None,
) -> None:
    """Measure training steps against FP32 and other libraries: time, memory, kernels and overhead."""
    to_stdout = json == Path("-")
    if to_stdout and markdown:
        raise ValueError("--json - and --markdown both print to stdout: give --json a file")
    if json is not None and not to_stdout and not json.parent.is_dir():
        raise ValueError(f"--json {json}: there is no folder {json.parent}")
    settings = Settings(
        models=tuple(dict.fromkeys(validate_name(model, MODELS, "model") for model in models or MODELS)),
        threads=tuple(dict.fromkeys(threads or (1, os.cpu_count() or 1))),
        forward=forward,
        backward=backward,
        rounds=rounds or (QUICK_ROUNDS if quick else FULL_ROUNDS),
        parts=tuple(dict.fromkeys(part or Part)),
        quick=quick,
    )
    result = measure(settings)
    print(json_text(asdict(result)) if to_stdout else as_text(result, markdown))
    if json is not None and not to_stdout:
        json.write_text(json_text(asdict(result)) + "\n", encoding="utf-8")
        print(f"written: {json}", file=sys.stderr)


def measure(settings: Settings) -> Result:
    """Measure what the settings say."""
    rounds, quick = settings.rounds, settings.quick
    result = Result(__version__, this_machine(), settings)
    if Part.STEPS in settings.parts:
        for threads in settings.threads:
            for model in settings.models:
                _announce(f"training step, {MODELS[model].title}, {count(threads, 'thread')}")
                result.steps += time_steps(model, threads, settings)
    if Part.MEMORY in settings.parts:
        for model in settings.models:
            _announce(f"memory, {MODELS[model].title}")
            result.memory += peak_memory(model, settings)
    if Part.KERNELS in settings.parts:
        _announce("kernels")
        for size in QUICK_SIZES if quick else SIZES:
            result.kernels += time_kernels(size, rounds)
    if Part.OVERHEAD in settings.parts:
        _announce("overhead")
        result.overhead += time_overhead(rounds, quick)
    return result


def _announce(stage: str) -> None:
    """Say what is measured next. Nothing moves meanwhile: a progress bar would take time that is being measured."""
    if sys.stderr.isatty():
        print(stage, file=sys.stderr, flush=True)


if __name__ == "__main__":
    run_commands("python -m benchmarks.speed", None, (bench,))
