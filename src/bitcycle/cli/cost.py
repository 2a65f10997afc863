"""``bitcycle cost``."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitcycle._support.text import format_error, short
from bitcycle.cli.parameters import (
    Activations,
    BackwardBits,
    GridName,
    StrengthSpec,
    Weights,
    backward_of,
    complete_schedule,
    completion,
    json_option,
    operand_of,
    strength_of,
)
from bitcycle.lab.models.catalogue import CATALOGUE
from bitcycle.lab.studies.exports import json_text
from bitcycle.schedules import TEN, Schedule
from bitcycle.schedules.base import validate_positive
from bitcycle.schedules.operands import OperandSchedules
from bitcycle.schedules.registry import DEFAULT_CYCLES
from bitcycle.schedules.spec import complete

if TYPE_CHECKING:
    from torch import nn

    from bitcycle._cost import Cost
    from bitcycle.lab.tasks import Training


def cost(
    model: Annotated[
        str,
        typer.Argument(
            help="A built-in model such as cifar-resnet-20, or your own as FILE.py:NAME or module:NAME: a task, "
            "or a function without arguments that returns a model and example inputs.",
            autocompletion=completion(CATALOGUE),
        ),
    ],
    schedule: Annotated[
        list[str] | None, typer.Option(help="A schedule; repeatable; default: CR.", autocompletion=complete_schedule)
    ] = None,
    schedules: Annotated[str | None, typer.Option(help="'ten' (or 'all') = the paper's ten schedules.")] = None,
    bits: Annotated[
        tuple[int, int], typer.Option(metavar="Q_MIN Q_MAX", help="q_min and q_max, unless a schedule has its own.")
    ] = (
        3,
        8,
    ),
    cycles: Annotated[int, typer.Option(help="Number of cycles, unless a schedule has its own.")] = DEFAULT_CYCLES,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 64_000,
    backward_bits: BackwardBits = "",
    weights: Weights = "",
    activations: Activations = "",
    strength: StrengthSpec = "",
    batch_size: Annotated[int, typer.Option(help="Samples per step, for built-in models.")] = 1,
    keep: Annotated[
        list[str] | None, typer.Option(help="Layers that stay in full precision, by name; repeatable.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="Keep in full precision what the paper does for a model family, such as cifar-resnet."),
    ] = None,
    aggregation: Annotated[str, typer.Option(help="Graph aggregation: 'full' or 'quantized'.")] = "full",
    convention: Annotated[
        str,
        typer.Option(
            help="'exact', 'paper' (all layers at the bits of the schedule) or 'authors' (as the authors' tool counts)."
        ),
    ] = "exact",
    hardware: Annotated[
        str,
        typer.Option(
            "--device",
            "--hardware",
            help="The device for the estimated time ratio: t4, a100, h100, b200, mi355x, vnni or bit-serial.",
        ),
    ] = "a100",
    grid: GridName = "integer",
    as_json: Annotated[
        bool,
        json_option(
            "an object with model, steps, convention, hardware, macs, rows (one per product) and schedules "
            "(schedule, bitops, saving, saving_against_full_precision, estimated_time_ratio)"
        ),
    ] = False,
) -> None:
    """Count the cost of a model: multiply-accumulates per layer, BitOps of training, and what a schedule saves."""
    if schedules not in (None, "ten", "all"):
        raise ValueError(f"--schedules must be 'ten', got {schedules!r}; use --schedule for individual schedules")
    specs = [*(schedule or []), *(TEN if schedules else [])] or ["CR"]
    chosen = [complete(spec, bits, cycles) for spec in specs]
    counted = count_model(model, validate_positive(batch_size, "--batch-size"), keep, policy, aggregation, grid)
    moves: dict[str, Any] = {
        "weights": operand_of(weights) or None,
        "activations": operand_of(activations) or None,
        "strength": strength_of(strength) or None,
    }
    backward = backward_of(backward_bits)
    totals = [_total(counted, s, steps, backward, convention, hardware, moves) for s in chosen]
    if as_json:
        settings = {"model": model, "steps": steps, "convention": convention, "hardware": hardware}
        print(json_text({**settings, **counted.as_dict(), "schedules": totals}))
    else:
        _print(counted, totals, steps, convention, hardware)


def count_model(
    name: str,
    batch_size: int,
    keep: list[str] | None = None,
    policy: str | None = None,
    aggregation: str = "full",
    grid: str = "integer",
) -> Cost:
    """Count the cost of a built-in model, or of the model of a user's function or task, after conversion."""
    import bitcycle as bc
    from bitcycle.lab.models.catalogue import build
    from bitcycle.lab.runs.user_code import is_reference, read_code
    from bitcycle.lab.tasks import Task

    own = is_reference(name)
    loaded = read_code(name).load() if own and ":" in name else None
    recipe = bc.Recipe(aggregation=aggregation)  # type: ignore[arg-type]
    if own and (loaded is None or (isinstance(loaded, type) and issubclass(loaded, Task))):
        training = _training(name)
        model, inputs = training.model, training.example()
        recipe, keep, policy = training.recipe, keep or list(training.keep), policy or training.policy
    else:
        model, inputs = _called(name, loaded) if own else build(name, batch_size)
    recipe = recipe if grid == bc.Recipe().grid else replace(recipe, grid=grid)
    bc.quantize(model, recipe, keep=keep, policy=policy)
    try:
        return bc.cost(model, inputs)
    except (RuntimeError, TypeError) as error:
        if not own:
            raise
        raise ValueError(f"the model of {name} failed on its example inputs: {format_error(error)}") from error


def _training(name: str) -> Training:
    """Prepare a run of a user's task."""
    from bitcycle.lab.runs.run_config import RunConfig
    from bitcycle.lab.tasks import task_named
    from bitcycle.lab.tasks.user_tasks import run_identity

    task = task_named(name)
    return task.prepare(RunConfig(schedule="full", steps=task.steps, **run_identity(task, "")))


def _called(name: str, function: Any) -> tuple[nn.Module, Any]:
    """Call a user's function that returns a model and example inputs."""
    from torch import nn

    if not callable(function):
        raise ValueError(f"{name} must be a function or a task, got {type(function).__name__}")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ValueError(
            f"{name} must be callable without arguments: {error}; write a function that returns the model and example "
            f"inputs"
        ) from None
    except ValueError:  # a function without a signature, as some in C
        pass
    try:
        returned = function()
    except Exception as error:
        raise ValueError(f"{name} raised {format_error(error)}") from error
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], nn.Module)):
        kinds = [type(each).__name__ for each in (returned if isinstance(returned, tuple) else [returned])]
        raise ValueError(f"{name} must return a model and example inputs, got {', '.join(kinds)}")
    return returned


def _total(
    counted: Cost,
    s: Schedule,
    steps: int,
    backward: int | str | None,
    convention: str,
    hardware: str,
    moves: dict[str, Any],
) -> dict[str, Any]:
    return {
        "schedule": OperandSchedules.of(s, backward, **moves).label,
        "bitops": counted.training(s, steps, backward, convention, **moves),
        "saving": counted.saving(s, steps, backward, convention, **moves),
        "saving_against_full_precision": counted.saving(s, steps, backward, convention, against="full", **moves),
        "estimated_time_ratio": counted.time_ratio(s, steps, backward, hardware, **moves),
    }


def _print(counted: Cost, totals: list[dict[str, Any]], steps: int, convention: str, hardware: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from bitcycle._cost.devices import device_named
    from bitcycle._cost.model_cost import EFFECTIVE

    console = Console()
    layers = Table(title="Products of one training step", title_justify="left")
    layers.add_column("name", overflow="fold")
    layers.add_column("product")
    for heading in ("MACs", "input\ngradient", "weight\ngradient"):
        layers.add_column(heading, justify="right", no_wrap=True)
    layers.add_column("precision")
    for row in counted.rows:
        figures = (short(n) for n in (row.macs, row.input_gradient, row.weight_gradient))
        layers.add_row(row.name, row.product, *figures, "scheduled" if row.quantized else "full")
    layers.add_section()
    gradients = (sum(r.input_gradient for r in counted.rows), sum(r.weight_gradient for r in counted.rows))
    layers.add_row("total", "", *(short(n) for n in (counted.macs, *gradients)), "")
    console.print(layers)
    console.print(f"{counted.macs:,} MACs in a forward pass\n", highlight=False)

    costs = Table(title=f"Training for {steps:,} steps, convention {convention!r}", title_justify="left")
    costs.add_column("schedule", overflow="fold")
    for heading in (
        "effective\nGMACs",
        "saving vs\nstatic q_max",
        "saving vs\nfull prec.",
        f"time, {hardware}\n(ESTIMATE)",
    ):
        costs.add_column(heading, justify="right", no_wrap=True)
    for total in totals:
        costs.add_row(
            total["schedule"],
            f"{total['bitops'] / EFFECTIVE / 1e9:,.3f}",
            f"{100 * total['saving']:.1f} %",
            f"{100 * total['saving_against_full_precision']:.1f} %",
            f"{total['estimated_time_ratio']:.2f} x",
        )
    console.print(costs)
    console.print(f"The time is an ESTIMATE from peak rates. {hardware}: {device_named(hardware).source}", style="dim")
    if counted.uncounted:
        console.print(counted.warning().strip(), style="bold red", markup=False)
