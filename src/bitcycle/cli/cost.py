"""``bitcycle cost``."""

from __future__ import annotations

from typing import Annotated, Any

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
from bitcycle.lab.format import percent
from bitcycle.lab.models.catalogue import CATALOGUE
from bitcycle.lab.runs.run_config import OPERAND_OVERRIDES
from bitcycle.lab.schedule_summary import complete, schedule_label
from bitcycle.lab.studies.exports import json_text
from bitcycle.schedules import TEN
from bitcycle.schedules.base import DEFAULT_CYCLES, FULL_WIDTH, validate_integer
from bitcycle.schedules.operands import OperandSchedules


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
    aggregation: Annotated[
        str | None, option("Graph aggregation: 'full' or 'quantized'; default: full, or as in the task.")
    ] = None,
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
    from bitcycle._cost.devices import DEVICES
    from bitcycle.lab.runs.model_cost import cost_of_model

    if schedules not in (None, "ten", "all"):
        raise ValueError(f"--schedules must be 'ten', got {schedules!r}; use --schedule for individual schedules")
    specs = [*(schedule or []), *(TEN if schedules else [])] or ["CR"]
    chosen = [complete(spec, bits, cycles) for spec in specs]
    operands = {"backward_bits": "max", **parse_fields(fields)}
    recipe = {"aggregation": aggregation, "grid": operands.pop("grid", None)}
    recipe = {name: value for name, value in recipe.items() if value is not None}
    counted = cost_of_model(model, validate_integer(batch_size, "--batch-size"), keep or (), policy, **recipe)
    rules = {"convention": convention, **operands}
    totals: list[dict[str, Any]] = [
        {
            "schedule": schedule_label(OperandSchedules.of(s, **operands)),
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
        return
    rows = [
        [
            total["schedule"],
            f"{total['bitops'] / FULL_WIDTH**2 / 1e9:,.3f}",
            percent(total["saving"]),
            percent(total["saving_against_full_precision"]),
            f"{total['estimated_time_ratio']:.2f} x",
        ]
        for total in totals
    ]
    figures = ["effective GMACs", "saving vs static q_max", "saving vs full precision", f"time, {hardware} (ESTIMATE)"]
    backward = sum(row.input_gradient + row.weight_gradient for row in counted.rows)
    print(f"Products of one training step\n\n{counted}\n{backward:,} MACs in a backward pass\n")
    print(f"Training for {steps:,} steps, convention {convention!r}\n")
    print(table(["schedule", *figures], rows, right=figures))
    print(f"The time is an ESTIMATE from peak rates. {hardware}: {DEVICES[hardware].source}")
