"""``bitcycle schedules``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from bitcycle._support.text import table
from bitcycle.cli.parameters import Cycles, ScheduleBits, Steps, argument, complete_schedule, json_option, option
from bitcycle.cli.run_options import parse_fields, with_run_options
from bitcycle.lab.format import percent
from bitcycle.lab.runs.run_config import OPERAND_OVERRIDES
from bitcycle.lab.studies.exports import json_text
from bitcycle.schedules import TEN
from bitcycle.schedules.comparison import ScheduleSummary, compare
from bitcycle.schedules.registry import DEFAULT_CYCLES
from bitcycle.schedules.spec import complete


@with_run_options(fields=("backward_bits", *OPERAND_OVERRIDES))
def schedules(
    *,
    specs: Annotated[
        list[str] | None,
        argument(
            "Schedules to compare, such as CR or 'delay(0.1, RTH:4-8)'; default: the paper's ten schedules.",
            complete=complete_schedule,
        ),
    ] = None,
    bits: ScheduleBits = (3, 8),
    cycles: Cycles = DEFAULT_CYCLES,
    steps: Steps = 64_000,
    fields: dict[str, Any],
    as_json: Annotated[
        bool,
        json_option(
            "a list of objects with schedule, mean_bits, saving, mean_bits_first_tenth, group, mean_bits_weights, "
            "mean_bits_activations, mean_bits_gradients and mean_strength"
        ),
    ] = False,
    plot: Annotated[Path | None, option("Save a plot of the schedules to this file.", metavar="FILE.png|svg")] = None,
) -> None:
    """Compare schedules: mean bits, saving relative to static q_max, and bits early in training.

    q_max is the largest integer width. A product of a w-bit and an a-bit operand costs w x a. The group (large, medium
    or small) says how much of the possible saving a schedule reaches.
    """
    rows = compare([complete(spec, bits, cycles) for spec in specs or TEN], steps, **parse_fields(fields))
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
    plain = all(row.operands.is_plain and row.operands.backward is None for row in rows)
    operands = "" if plain else "\nmean bits of weights (W), activations (A) and gradients (G)"
    print(f"{steps:,} steps; saving in BitOps relative to static q_max{operands}\n")
    figures = [_figures(row, plain) for row in rows]
    cells = [[row.operands.label, *each.values(), row.group or "-"] for row, each in zip(rows, figures, strict=True)]
    print(table(["schedule", *figures[0], "group"], cells, right=figures[0]))


def _figures(row: ScheduleSummary, plain: bool) -> dict[str, str]:
    """Return the figures of a row by heading; those of each operand unless all of them follow one schedule."""
    saving = {"saving": percent(row.saving)}
    if plain:
        return {"mean bits": f"{row.mean_bits:.2f}"} | saving | {"mean bits, first 10 %": f"{row.early_bits:.2f}"}
    means = {"W": row.mean_weights, "A": row.mean_activations, "G": row.mean_gradients, "strength": row.mean_strength}
    return {name: f"{mean:.2f}" for name, mean in means.items()} | saving
