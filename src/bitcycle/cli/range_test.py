"""``bitcycle range-test``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bitcycle.cli.parameters import TaskName, json_option, option
from bitcycle.cli.run_options import parse_fields, with_run_options
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.exports import json_text

if TYPE_CHECKING:
    from bitcycle._range_test import RangeTestResult


@with_run_options(fields=("data", "model", "batch_size", "options"))
def range_test(
    *,
    task: TaskName,
    levels: Annotated[tuple[int, int], option("The lowest and the highest bit-width to test.", metavar="LOW HIGH")] = (
        2,
        8,
    ),
    iterations: Annotated[int, option("Steps of each short run; doubled until full precision clearly learns.")] = 60,
    longest: Annotated[int, option("The largest number of iterations after doubling.")] = 480,
    seeds: Annotated[int, option("Number of short runs at each width, each with its own seed.")] = 3,
    share: Annotated[
        float, option("The share of full precision's progress that a width must reach.", metavar="PERCENT")
    ] = 50,
    fields: dict[str, Any],
    backward_bits: Annotated[
        int | None, option("Bit-width of the gradients; default: the highest width tested.")
    ] = None,
    plot: Annotated[
        Path | None, option("Save a plot of the measurements to this file.", metavar="FILE.png|svg")
    ] = None,
    as_json: Annotated[
        bool, json_option("an object with q_min, reason, iterations, seeds, share, evidence, reference")
    ] = False,
) -> None:
    """Find the q_min of a task: the lowest bit-width at which short runs learn, with the measurements at each width."""
    if plot is not None and plot.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"--plot must be a .png or .svg file, got {plot.name!r}")
    if levels[0] > levels[1]:
        raise ValueError(
            f"--levels must be the lowest and the highest in this order, got {levels[0]} {levels[1]}: "
            f"use --levels {levels[1]} {levels[0]}"
        )
    from bitcycle.cli.progress import ProgressBar
    from bitcycle.lab.runs.range_test import range_test_of_task
    from bitcycle.lab.tasks import task_named
    from bitcycle.lab.tasks.user_tasks import run_identity

    chosen = task_named(task)
    run = RunConfig(
        schedule="full",
        steps=max(chosen.steps, iterations),
        **run_identity(chosen, fields.pop("data", "")),
        **parse_fields(fields),
    )
    with ProgressBar() as bar:
        test = range_test_of_task(
            run,
            longest,
            levels=range(levels[0], levels[1] + 1),
            iterations=iterations,
            seeds=seeds,
            share=share / 100,
            backward_bits="max" if backward_bits is None else backward_bits,
            report=lambda bits, done, total: bar.show(done, total, f"{bits} bits" if bits else "full precision"),
        )
    if plot is not None:
        test.plot(plot)
    if as_json:
        print(json_text(test.as_dict()))
        return
    print(f"{task}: {seeds} seeds of {test.iterations} iterations at each width\n\n{test}")
    print(_next_step(test, task, levels[1]))
    if plot is not None:
        print(f"written: {plot}")


def _next_step(test: RangeTestResult, task: str, q_max: int) -> str:
    from bitcycle.lab.runs.user_code import is_reference

    if test.q_min is None:
        return "No bit-width works yet: train with more bits or more iterations."
    if test.q_min == q_max:
        return f"Only {q_max} bits work: use --schedule static:{q_max}."
    bits = f"--bits {test.q_min} {q_max}"
    domain = "" if is_reference(task) else f"--domain {task} "  # advice knows the domains of the built-in tasks
    return f"Use {bits}, as in 'bitcycle train {task} {bits}' or 'bitcycle advise {domain}{bits}'."
