"""The cost of a model that is given by name: a built-in one, or that of a function or a task of the user."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import nn

from bitcycle._cost import Cost, cost
from bitcycle._support.text import short_repr
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.conversion.convert import quantize
from bitcycle.lab.format import format_error
from bitcycle.lab.models.catalogue import build
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.user_code import read_code
from bitcycle.lab.tasks import Task, task_named
from bitcycle.lab.tasks.user_tasks import run_identity


def cost_of_model(
    name: str, batch_size: int = 1, keep: Iterable[str] = (), policy: str | None = None, **recipe: Any
) -> Cost:
    """Count the products of a model after conversion.

    Args:
        name: A name of the catalogue, or ``FILE.py:NAME`` or ``module:NAME``: a task, or a function without arguments
            that returns a model and example inputs.
        batch_size: Samples per step, for the catalogue.
        keep: Layers that stay in full precision; default: those of the task.
        policy: See :func:`bitcycle.quantize`; default: that of the task.
        **recipe: Changes of the recipe, which is that of the task, or the default.
    """
    own = read_code(name).load() if ":" in name else None
    base = Recipe()
    if name.endswith(".py") or (isinstance(own, type) and issubclass(own, Task)):
        task = task_named(name)
        training = task.prepare(RunConfig(schedule="full", steps=task.steps, **run_identity(task, "")))
        model, inputs = training.model, training.example()
        base, keep, policy = training.recipe, keep or training.keep, policy or training.policy
    else:
        model, inputs = build(name, batch_size) if own is None else _called(name, own)
    quantize(model, replace(base, **recipe), keep=list(keep), policy=policy)
    try:
        return cost(model, inputs)
    except (RuntimeError, TypeError) as error:
        if own is None:
            raise
        raise ValueError(f"the model of {name} failed on its example inputs: {format_error(error)}") from error


def _called(name: str, function: Any) -> tuple[nn.Module, Any]:
    try:
        returned = function()
    except Exception as error:
        raise ValueError(f"calling {name} without arguments raised {format_error(error)}") from error
    match returned:
        case (nn.Module(), _):
            return returned
    raise ValueError(f"{name} must return a model and example inputs, got {short_repr(returned)}")
