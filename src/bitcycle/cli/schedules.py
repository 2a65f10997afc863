"""``bitcycle schedules``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from bitcycle._support.text import table
from bitcycle.cli.parameters import Cycles, ScheduleBits, Steps, argument, complete_schedule, json_option, option
from bitcycle.cli.run_options import parse_fields, with_run_options
from bitcycle.lab.format import percent
from bitcycle.lab.runs.run_config import OPERAND_OVERRIDES
from bitcycle.lab.schedule_summary import complete, schedule_summary
from bitcycle.lab.studies.exports import json_text
from bitcycle.schedules import TEN
from bitcycle.schedules.base import DEFAULT_CYCLES
from bitcycle.schedules.operands import OperandSchedules


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
    parsed = parse_fields(fields)
    chosen = [OperandSchedules.of(complete(spec, bits, cycles), **parsed) for spec in specs or TEN]
    if not specs:
        chosen.sort(key=lambda operands: -operands.saving(steps))
    if plot is not None:
        from bitcycle.lab.report.schedule_panels import draw_schedules

        plot.parent.mkdir(parents=True, exist_ok=True)
        draw_schedules(chosen, steps, plot)
    if as_json:
        print(json_text([schedule_summary(operands, steps) for operands in chosen]))
    else:
        _print_table(chosen, steps)
        if plot is not None:
            print(f"written: {plot}")


def _print_table(chosen: list[OperandSchedules], steps: int) -> None:
    plain = all(operands == OperandSchedules(operands.weights, operands.weights) for operands in chosen)
    about = "" if plain else "\nmean bits of weights (W), activations (A) and gradients (G)"
    print(f"{steps:,} steps; saving in BitOps relative to static q_max{about}\n")
    summaries = [schedule_summary(operands, steps) for operands in chosen]
    figures = [_figures(summary, plain) for summary in summaries]
    cells = [
        [summary["schedule"], *each.values(), summary["group"] or "-"]
        for summary, each in zip(summaries, figures, strict=True)
    ]
    print(table(["schedule", *figures[0], "group"], cells, right=figures[0]))


def _figures(summary: dict[str, Any], plain: bool) -> dict[str, str]:
    """Return the figures of a row by heading; those of each operand unless all of them follow one schedule."""
    plain_figures = {"mean bits": "mean_bits", "saving": "saving", "mean bits, first 10 %": "mean_bits_first_tenth"}
    of_operands = {"W": "mean_bits_weights", "A": "mean_bits_activations", "G": "mean_bits_gradients"}
    shown = plain_figures if plain else {**of_operands, "strength": "mean_strength", "saving": "saving"}
    return {
        heading: percent(summary[name]) if name == "saving" else f"{summary[name]:.2f}"
        for heading, name in shown.items()
    }
