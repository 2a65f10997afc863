"""``bitcycle cost``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitcycle._support.text import table
from bitcycle.cli.parameters import (
    Cycles,
    ScheduleBits,
    Steps,
    argument,
    complete_schedule,
    json_option,
    option,
)
from bitcycle.cli.run_options import parse_fields, with_run_options
from bitcycle.lab.format import format_error, percent, short
from bitcycle.lab.models.catalogue import CATALOGUE
from bitcycle.lab.runs.run_config import OPERAND_OVERRIDES
from bitcycle.lab.studies.exports import json_text
from bitcycle.schedules import TEN
from bitcycle.schedules.base import DEFAULT_CYCLES, validate_integer
from bitcycle.schedules.operands import OperandSchedules
from bitcycle.schedules.spec import complete

if TYPE_CHECKING:
    from torch import nn

    from bitcycle._cost import Cost


@with_run_options(fields=("backward_bits", *OPERAND_OVERRIDES, "grid"))
def cost(
    *,
    model: Annotated[
        str,
        argument(
            "A built-in model such as cifar-resnet-20, or your own as FILE.py:NAME or module:NAME: a task, "
            "or a function without arguments that returns a model and example inputs.",
            complete=CATALOGUE,
        ),
    ],
    schedule: Annotated[
        list[str] | None, option("A schedule; repeatable; default: CR.", complete=complete_schedule)
    ] = None,
    schedules: Annotated[str | None, option("'ten' (or 'all') = the paper's ten schedules.")] = None,
    bits: ScheduleBits = (3, 8),
    cycles: Cycles = DEFAULT_CYCLES,
    steps: Steps = 64_000,
    fields: dict[str, Any],
    batch_size: Annotated[int, option("Samples per step, for built-in models.")] = 1,
    keep: Annotated[list[str] | None, option("Layers that stay in full precision, by name; repeatable.")] = None,
    policy: Annotated[
        str | None, option("Keep in full precision what the paper does for a model family, such as cifar-resnet.")
    ] = None,
    aggregation: Annotated[str, option("Graph aggregation: 'full' or 'quantized'.")] = "full",
    convention: Annotated[
        str,
        option("'exact', 'paper' (all layers at the bits of the schedule) or 'authors' (as the authors' tool counts)."),
    ] = "exact",
    hardware: Annotated[
        str,
        option(
            "The device for the estimated time ratio: t4, a100, h100, b200, mi355x, vnni or bit-serial.",
            "--device",
            "--hardware",
        ),
    ] = "a100",
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
    operands = {"backward_bits": "max", **parse_fields(fields)}
    grid = operands.pop("grid", None)
    counted = count_model(model, validate_integer(batch_size, "--batch-size"), keep, policy, aggregation, grid)
    rules = {"convention": convention, **operands}
    totals = [
        {
            "schedule": OperandSchedules.of(s, **operands).label,
            "bitops": counted.training(s, steps, **rules),
            "saving": counted.saving(s, steps, **rules),
            "saving_against_full_precision": counted.saving(s, steps, against="full", **rules),
            "estimated_time_ratio": counted.time_ratio(s, steps, device=hardware, **operands),
        }
        for s in chosen
    ]
    if as_json:
        settings = {"model": model, "steps": steps, "convention": convention, "hardware": hardware}
        print(json_text({**settings, **counted.as_dict(), "schedules": totals}))
    else:
        _print(counted, totals, steps, convention, hardware)


def count_model(
    name: str,
    batch_size: int = 1,
    keep: list[str] | None = None,
    policy: str | None = None,
    aggregation: str = "full",
    grid: str | None = None,
) -> Cost:
    """Count the cost of a built-in model, or of the model of a user's function or task, after conversion."""
    import bitcycle as bc
    from bitcycle.lab.models.catalogue import build
    from bitcycle.lab.runs.run_config import RunConfig
    from bitcycle.lab.runs.user_code import is_reference, read_code
    from bitcycle.lab.tasks import Task, task_named
    from bitcycle.lab.tasks.user_tasks import run_identity

    own = is_reference(name)
    loaded = read_code(name).load() if own and ":" in name else None
    recipe = bc.Recipe(aggregation=aggregation)  # type: ignore[arg-type]
    if own and (loaded is None or (isinstance(loaded, type) and issubclass(loaded, Task))):
        task = task_named(name)
        training = task.prepare(RunConfig(schedule="full", steps=task.steps, **run_identity(task, "")))
        model, inputs = training.model, training.example()
        recipe, keep, policy = training.recipe, keep or list(training.keep), policy or training.policy
    else:
        model, inputs = _call(name, loaded) if own else build(name, batch_size)
    bc.quantize(model, replace(recipe, grid=grid) if grid else recipe, keep=keep, policy=policy)
    try:
        return bc.cost(model, inputs)
    except (RuntimeError, TypeError) as error:
        if not own:
            raise
        raise ValueError(f"the model of {name} failed on its example inputs: {format_error(error)}") from error


def _call(name: str, function: Any) -> tuple[nn.Module, Any]:
    """Call a user's function that returns a model and example inputs."""
    from torch import nn

    if not callable(function):
        raise ValueError(f"{name} must be a function or a task, got {type(function).__name__}")
    try:
        returned = function()
    except Exception as error:
        raise ValueError(f"calling {name} without arguments raised {format_error(error)}") from error
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], nn.Module)):
        kinds = [type(each).__name__ for each in (returned if isinstance(returned, tuple) else [returned])]
        raise ValueError(f"{name} must return a model and example inputs, got {', '.join(kinds)}")
    return returned


def _print(counted: Cost, totals: list[dict[str, Any]], steps: int, convention: str, hardware: str) -> None:
    from bitcycle._cost.devices import DEVICES
    from bitcycle._cost.model_cost import EFFECTIVE

    figures = ["MACs", "input gradient", "weight gradient"]
    counts = [[row.macs, row.input_gradient, row.weight_gradient] for row in counted.rows]
    rows = [
        [row.name, row.product, *map(short, numbers), "scheduled" if row.quantized else "full"]
        for row, numbers in zip(counted.rows, counts, strict=True)
    ]
    total = ["total", "", *(short(sum(numbers[i] for numbers in counts)) for i in range(3)), ""]
    print("Products of one training step\n")
    print(table(["name", "product", *figures, "precision"], [*rows, total], right=figures))
    print(f"{counted.macs:,} MACs in a forward pass\n")

    figures = ["effective GMACs", "saving vs static q_max", "saving vs full precision", f"time, {hardware} (ESTIMATE)"]
    rows = [
        [
            each["schedule"],
            f"{each['bitops'] / EFFECTIVE / 1e9:,.3f}",
            percent(each["saving"]),
            percent(each["saving_against_full_precision"]),
            f"{each['estimated_time_ratio']:.2f} x",
        ]
        for each in totals
    ]
    print(f"Training for {steps:,} steps, convention {convention!r}\n")
    print(table(["schedule", *figures], rows, right=figures))
    print(f"The time is an ESTIMATE from peak rates. {hardware}: {DEVICES[hardware].source}")
    if counted.uncounted:
        typer.secho(counted.warning().strip(), fg="red", bold=True)
