"""``bitcycle cost``: what a model costs, layer by layer and over a whole training."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitcycle.schedules import DEFAULT_CYCLES, TEN, Schedule, complete

if TYPE_CHECKING:
    from bitcycle._cost import Cost


def cost(
    model: Annotated[
        str,
        typer.Argument(
            help="A built-in model such as cifar-resnet-20 (a wrong name lists them), or your own as "
            "module:callable, which returns the model and example inputs."
        ),
    ],
    schedule: Annotated[list[str] | None, typer.Option(help="A schedule to cost; may be given several times.")] = None,
    schedules: Annotated[str | None, typer.Option(help="'all': the paper's ten side by side.")] = None,
    bits: Annotated[tuple[int, int], typer.Option(help="q_min and q_max, for schedules that do not say their own.")] = (
        3,
        8,
    ),
    cycles: Annotated[int, typer.Option(help="Number of cycles, likewise.")] = DEFAULT_CYCLES,
    steps: Annotated[int, typer.Option(help="Steps of the whole training.")] = 64_000,
    backward_bits: Annotated[
        int | None, typer.Option(help="Width of the gradients; each schedule's q_max if not given.")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Samples in a step, for the built-in models.")] = 1,
    keep: Annotated[
        list[str] | None, typer.Option(help="Layers that stay in full precision, by name; may be given several times.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Keep what the paper keeps in a model family, such as cifar-resnet.")
    ] = None,
    aggregation: Annotated[str, typer.Option(help="Graph aggregation: 'full' or 'quantized'.")] = "full",
    convention: Annotated[
        str,
        typer.Option(help="'exact'; 'paper': all layers at the schedule's bits; 'authors': as their tool counts."),
    ] = "exact",
    hardware: Annotated[str, typer.Option(help="The device of the estimated time ratio.")] = "a100",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """What a model costs: multiply-accumulates by layer, BitOps of training, and what a schedule saves."""
    if schedules not in (None, "all"):
        raise ValueError(f"--schedules is 'all', not {schedules!r}; name single ones with --schedule")
    specs = [*(schedule or []), *(TEN if schedules == "all" else [])] or ["CR"]
    chosen = [complete(spec, bits, cycles) for spec in specs]
    counted = _count(model, batch_size, keep, policy, aggregation)
    backward = "max" if backward_bits is None else backward_bits
    totals = [_total(counted, s, steps, backward, convention, hardware) for s in chosen]
    if as_json:
        settings = {"model": model, "steps": steps, "convention": convention, "hardware": hardware}
        print(json.dumps({**settings, **counted.as_dict(), "schedules": totals}, indent=2))
    else:
        _print(counted, totals, steps, convention, hardware)


def _count(name: str, batch_size: int, keep: list[str] | None, policy: str | None, aggregation: str) -> Cost:
    import bitcycle as bc
    from bitcycle.experiments.models.catalogue import build

    model, inputs = _load(name) if ":" in name else build(name, batch_size)
    recipe = bc.Recipe(aggregation=aggregation)  # type: ignore[arg-type]
    bc.quantize(model, recipe, keep=keep, policy=policy)
    return bc.cost(model, inputs)


def _load(name: str) -> tuple[Any, Any]:
    """What a callable of the user's returns, from a module on the path or in the current folder."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot load {name!r}: {error}") from error
    made = function()
    if not (isinstance(made, tuple) and len(made) == 2):
        raise ValueError(f"{name} must return a model and example inputs, not {type(made).__name__}")
    return made


def _total(
    counted: Cost, s: Schedule, steps: int, backward: int | str, convention: str, hardware: str
) -> dict[str, Any]:
    return {
        "schedule": str(s),
        "bitops": counted.training(s, steps, backward, convention),
        "saving": counted.saving(s, steps, backward, convention),
        "saving_against_full_precision": counted.saving(s, steps, backward, convention, against="full"),
        "estimated_time_ratio": counted.time_ratio(s, steps, backward, hardware),
    }


def _print(counted: Cost, totals: list[dict[str, Any]], steps: int, convention: str, hardware: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from bitcycle._cost.cost import EFFECTIVE
    from bitcycle._support.text import short

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

    costs = Table(title=f"Training of {steps:,} steps, convention {convention!r}", title_justify="left")
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
    if counted.uncounted:
        console.print(counted.warning().strip(), style="bold red", markup=False)
