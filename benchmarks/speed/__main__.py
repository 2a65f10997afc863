"""``python -m benchmarks.speed``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.speed.settings import FULL_ROUNDS, MODELS, QUICK_ROUNDS, BenchSettings, Part, all_cores
from bitcycle._support.names import nearest
from bitcycle.cli.app import run as main
from bitcycle.cli.app import wrap_help_at_the_terminal
from bitcycle.lab.studies.exports import json_text
from bitcycle.schedules.base import MAX_BITS


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
            "machine, settings, steps, memory, kernels, products and overhead.",
        ),
    ] = None,
) -> None:
    """Measure training steps against FP32 and other libraries: time, memory, kernels and overhead."""
    to_stdout = json == Path("-")
    if to_stdout and markdown:
        raise ValueError("--json - and --markdown both print to stdout: give --json a file")
    if json is not None and not to_stdout and not json.parent.is_dir():
        raise ValueError(f"--json {json}: there is no folder {json.parent}")
    for model in models or ():
        if model not in MODELS:
            raise ValueError(f"unknown model {model!r}: {nearest(model, MODELS)}")
    settings = BenchSettings(
        models=tuple(dict.fromkeys(models or MODELS)),
        threads=tuple(dict.fromkeys(threads or (1, all_cores()))),
        forward=forward,
        backward=backward,
        rounds=(QUICK_ROUNDS if quick else FULL_ROUNDS) if rounds is None else rounds,
        parts=tuple(dict.fromkeys(part or Part)),
        quick=quick,
    )
    from benchmarks.speed.run import run
    from benchmarks.speed.tables import as_text

    result = run(settings, report=_show if sys.stderr.isatty() else lambda name: None)
    if not to_stdout:
        print(as_text(result, markdown))
    if json is not None:
        document = json_text(result.as_dict())
        if to_stdout:
            print(document)
            return
        json.write_text(document + "\n", encoding="utf-8")
        print(f"written: {json}", file=sys.stderr)


def _show(name: str) -> None:
    """Say what is being measured. Nothing moves meanwhile: a progress bar would take time that is being measured."""
    print(name, file=sys.stderr, flush=True)


def application() -> typer.Typer:
    """Return the typer application with its one command."""
    app = typer.Typer(
        context_settings={"help_option_names": ["-h", "--help"]}, pretty_exceptions_enable=False, add_completion=False
    )
    app.command()(bench)
    wrap_help_at_the_terminal(app)
    return app


if __name__ == "__main__":
    main(application, "python -m benchmarks.speed")
