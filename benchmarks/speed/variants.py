"""What is compared: a model in full precision, converted by bitcycle, or converted by another library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

from benchmarks.speed.peers import PEERS, NotAvailableError, convert
from benchmarks.speed.workloads import Workload, make
from bitcycle._support.extras import MissingExtraError
from bitcycle.arithmetic.execution import integers_are_right
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.conversion.convert import quantize
from bitcycle.scheduler import PrecisionScheduler

FULL_PRECISION = "FP32"


class Own(NamedTuple):
    """How bitcycle converts a model."""

    recipe: Recipe
    execute: str


TENSOR = Recipe(weights="tensor", activations="tensor", features="tensor")
OWN: Mapping[str, Own] = {
    "simulated, tensor": Own(TENSOR, "simulated"),
    "integer, tensor": Own(TENSOR, "integer"),
    "simulated, default": Own(Recipe(), "simulated"),
    "auto, default": Own(Recipe(), "auto"),
    "auto, folded": Own(Recipe(fold_scales=True), "auto"),
}
"""Execution, and grids: one for each tensor, the default ones, or the default ones with folded scales."""

MEASURED_WITH_PEERS = ("resnet-20", "transformer-256", "transformer-512")
_NEVER = 10**8  # total steps of a schedule that does not end


def variants_of(model: str) -> tuple[str, ...]:
    """Return the names of what is compared on a model, full precision first."""
    return (FULL_PRECISION, *OWN, *(PEERS if model in MEASURED_WITH_PEERS else ()))


def training_step(model: str, variant: str, forward: int, backward: int, quick: bool = False) -> Callable[[], None]:
    """Return a function that runs one step of training: gradients, optimiser and scheduler.

    Raises:
        NotAvailableError: The variant does not exist for the model, here.
    """
    try:
        workload = make(model, quick, of_linear_layers=variant in PEERS)
    except MissingExtraError as error:
        raise NotAvailableError(str(error)) from None
    if variant == FULL_PRECISION:
        return _step(workload)
    if variant in PEERS:
        with convert(workload.model, PEERS[variant], forward) as converted:
            step = _step(workload._replace(model=converted))
            step()
        return step
    own = OWN[variant]
    if own.execute == "integer" and not integers_are_right():
        raise NotAvailableError("torch._int_mm gives wrong results on this machine")
    quantize(workload.model, own.recipe, execute=own.execute)
    return _step(workload, PrecisionScheduler(workload.model, f"static:{forward}", _NEVER, backward).step)


def _step(workload: Workload, after: Callable[[], None] = lambda: None) -> Callable[[], None]:
    # A small learning rate: however long it is measured, the values of the model stay ordinary ones.
    optimizer = torch.optim.SGD(workload.model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        workload.loss(workload.model).backward()
        optimizer.step()
        after()

    return step
