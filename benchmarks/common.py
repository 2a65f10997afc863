"""What the scripts share: command lines, calls in worker processes, tables in Markdown, and the name of the CPU."""

from __future__ import annotations

import platform
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import typer

from bitcycle.cli.app import run


def run_commands(name: str, help: str | None, commands: Sequence[Callable[..., None]]) -> None:
    """Run a command line of one or several commands, with errors and help like those of ``bitcycle``."""
    app = typer.Typer(
        help=help,
        no_args_is_help=len(commands) > 1,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode="markdown",  # wraps the help at the width of the terminal
    )
    for command in commands:
        app.command()(command)
    run(lambda: app, name)


def cpu_model() -> str:
    """Return the name of the CPU."""
    info = Path("/proc/cpuinfo")  # where Linux has it
    found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def run_in_processes(call: Callable[..., Any], arguments: Iterable[Any], workers: int) -> Iterator[Any]:
    """Yield the result of a call for each argument, in order, from fresh processes with one thread each."""
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_use_one_thread) as pool:
        yield from pool.map(call, arguments)


def _use_one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown.

    >>> print(markdown_table(["model", "time"], [["a", "1 ms"]]))
    | model | time |
    |---|---|
    | a | 1 ms |
    """
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])
