"""``bitcycle schedules``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitcycle.cli.parameters import (
    Activations,
    BackwardBits,
    StrengthSpec,
    Weights,
    backward_of,
    complete_schedule,
    json_option,
    operand_of,
    strength_of,
)
from bitcycle.lab.studies.exports import json_text
from bitcycle.schedules import TEN
from bitcycle.schedules.comparison import ScheduleSummary, compare
from bitcycle.schedules.registry import DEFAULT_CYCLES
from bitcycle.schedules.spec import complete

GROUP_STYLE = {"large": "green", "medium": "yellow", "small": "red", None: "dim"}


def schedules(
    specs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Schedules to compare, such as CR or 'delay(0.1, RTH:4-8)'; default: the paper's ten schedules.",
            autocompletion=complete_schedule,
        ),
    ] = None,
    bits: Annotated[
        tuple[int, int], typer.Option(metavar="Q_MIN Q_MAX", help="q_min and q_max, unless a schedule has its own.")
    ] = (3, 8),
    cycles: Annotated[int, typer.Option(help="Number of cycles, unless a schedule has its own.")] = DEFAULT_CYCLES,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 64_000,
    backward_bits: BackwardBits = "",
    weights: Weights = "",
    activations: Activations = "",
    strength: StrengthSpec = "",
    as_json: Annotated[
        bool,
        json_option(
            "a list of objects with schedule, mean_bits, saving, mean_bits_first_tenth, group, mean_bits_weights, "
            "mean_bits_activations, mean_bits_gradients and mean_strength"
        ),
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png|svg", help="Save a plot of the schedules to this file.")
    ] = None,
) -> None:
    """Compare schedules: mean bits, saving relative to static q_max, and bits early in training.

    q_max is the largest integer width. A product of a w-bit and an a-bit operand costs w x a. The group (large, medium
    or small) says how much of the possible saving a schedule reaches.
    """
    rows = compare(
        [complete(spec, bits, cycles) for spec in specs or TEN],
        steps,
        backward_of(backward_bits),
        weights=operand_of(weights) or None,
        activations=operand_of(activations) or None,
        strength=strength_of(strength) or None,
    )
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

    plain = all(row.operands.is_plain and row.operands.backward is None for row in rows)
    operands = "" if plain else "\nmean bits of weights (W), activations (A) and gradients (G)"
    title = f"{steps:,} steps; saving in BitOps relative to static q_max{operands}"
    table = Table(title=title, title_justify="left")
    table.add_column("schedule", overflow="fold")
    for heading in _figures(rows[0], plain):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("group")
    for row in rows:
        style = GROUP_STYLE[row.group]
        table.add_row(row.operands.label, *_figures(row, plain).values(), f"[{style}]{row.group or '-'}[/]")
    Console().print(table)


def _figures(row: ScheduleSummary, plain: bool) -> dict[str, str]:
    """Return the figures of a row by heading; those of each operand unless one schedule moves everything."""
    saving = {"saving": f"{100 * row.saving:.1f} %"}
    if plain:
        return {"mean bits": f"{row.mean_bits:.2f}"} | saving | {"mean bits,\nfirst 10 %": f"{row.early_bits:.2f}"}
    means = {"W": row.mean_weights, "A": row.mean_activations, "G": row.mean_gradients, "strength": row.mean_strength}
    return {name: f"{mean:.2f}" for name, mean in means.items()} | saving
