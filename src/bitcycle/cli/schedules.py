"""``bitcycle schedules``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitcycle._study.exports import json_text
from bitcycle.cli.parameters import complete_schedule, json_option
from bitcycle.schedules import DEFAULT_CYCLES, TEN, complete
from bitcycle.schedules.comparison import ScheduleSummary, compare

GROUP_STYLE = {"large": "green", "medium": "yellow", "small": "red", None: "dim"}


def schedules(
    specs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Schedules to compare, such as CR or 'delay(0.1, RTH:4-8)'; default: the paper's ten schedules.",
            autocompletion=complete_schedule,
        ),
    ] = None,
    bits: Annotated[tuple[int, int], typer.Option(help="q_min and q_max, unless a schedule has its own.")] = (3, 8),
    cycles: Annotated[int, typer.Option(help="Number of cycles, unless a schedule has its own.")] = DEFAULT_CYCLES,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 64_000,
    backward_bits: Annotated[
        int | None, typer.Option(help="Bit-width of the gradients; default: q_max of each schedule.")
    ] = None,
    as_json: Annotated[
        bool, json_option("a list of objects with schedule, mean_bits, saving, mean_bits_first_tenth and group")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png|svg", help="Save a plot of the schedules to this file.")
    ] = None,
) -> None:
    """Compare schedules: mean bits, saving relative to static q_max, and bits early in training.

    The group (large, medium or small) says how much of the possible saving a schedule reaches.
    """
    compared = (complete(spec, bits, cycles) for spec in specs or TEN)
    rows = compare(compared, steps, "max" if backward_bits is None else backward_bits)
    if not specs:
        rows.sort(key=lambda row: -row.saving)
    if plot is not None:
        from bitcycle.schedules.plot import draw_schedules

        plot.parent.mkdir(parents=True, exist_ok=True)
        draw_schedules(rows, steps, plot)
    if as_json:
        print(json_text([row.as_dict() for row in rows]))
    else:
        _print_table(rows, steps)
        if plot is not None:
            print(f"written: {plot}")


def _print_table(rows: list[ScheduleSummary], steps: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{steps:,} steps; saving in BitOps relative to static q_max", title_justify="left")
    table.add_column("schedule", overflow="fold")
    for heading in ("mean bits", "saving", "mean bits,\nfirst 10 %"):
        table.add_column(heading, justify="right")
    table.add_column("group")
    for row in rows:
        style = GROUP_STYLE[row.group]
        table.add_row(
            str(row.schedule),
            f"{row.mean_bits:.2f}",
            f"{100 * row.saving:.1f} %",
            f"{row.early_bits:.2f}",
            f"[{style}]{row.group or '-'}[/]",
        )
    Console().print(table)
