"""``bitcycle schedules``: the ten schedules, or any others, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bitcycle.schedules import DEFAULT_CYCLES, TEN, complete
from bitcycle.schedules.comparison import ScheduleSummary, compare

GROUP_STYLE = {"large": "green", "medium": "yellow", "small": "red", None: "dim"}


def schedules(
    specs: Annotated[
        list[str] | None,
        typer.Argument(help="What to compare, such as CR or 'delay(0.1, RTH:4-8)'; the ten if none is named."),
    ] = None,
    bits: Annotated[
        tuple[int, int], typer.Option(help="q_min and q_max, for the schedules that do not say their own.")
    ] = (3, 8),
    cycles: Annotated[int, typer.Option(help="Number of cycles, likewise.")] = DEFAULT_CYCLES,
    steps: Annotated[int, typer.Option(help="Steps of the whole training.")] = 64_000,
    backward_bits: Annotated[
        int | None, typer.Option(help="Width of the gradients; each schedule's q_max if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png|svg", help="Draw the curves of all of them into a figure.")
    ] = None,
) -> None:
    """Compare schedules: mean bits, saving against static q_max, early precision.

    The group follows from the saving: large, medium or small names how much of the possible saving is reached.
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
        print(json.dumps([row.as_dict() for row in rows], indent=2))
    else:
        _print_table(rows, steps)
        if plot is not None:
            print(f"drawn: {plot}")


def _print_table(rows: list[ScheduleSummary], steps: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{steps:,} steps; saving in BitOps against static q_max", title_justify="left")
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
