"""Discovery: run a converted model once, and make the products that modules compute themselves sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.conversion.modules import convert_own_forward, hide_nested_layers
from bitcycle.conversion.recorded_skips import left_float, record_skips, recorded_skips
from bitcycle.conversion.rules import Rule
from bitcycle.conversion.skip_reasons import FORWARD
from bitcycle.conversion.tracing import ProductTracer, preserve_state, run_on_copies
from bitcycle.nn.layer import conversion_of


def discover_products(
    model: nn.Module, recipe: Recipe, keep: tuple[Rule, ...], ruled_out: Mapping[nn.Module, Skip], inputs: Any
) -> None:
    """Run a converted model once, so that products in modules' own ``forward`` become sites.

    A module that multiplies although its code does not show it is converted unless rules exclude it, and the model runs
    again. What cannot be computed at sites in this way either is a reason to skip the module.
    """
    while True:
        outside: dict[nn.Module, tuple[str, list[str]]] = {}

        def ran_outside(
            name: str, module: nn.Module, operation: str, *_: Any, outside: dict[Any, Any] = outside
        ) -> None:
            if _showed_no_product(module):
                operations = outside.setdefault(module, (name, []))[1]
                operations += [operation] if operation not in operations else []

        with preserve_state(model), torch.no_grad(), ProductTracer(model, ran_outside):
            run_on_copies(model, inputs)
        changed = False
        for module, (name, _) in outside.items():
            if module in ruled_out:
                record_skips(module, (ruled_out[module],))
            elif conversion_of(module) is None and FORWARD not in vars(module):
                convert_own_forward(name, module, recipe, keep)
                record_skips(module, ())
            else:
                continue
            changed = True
        if not changed:
            break
        hide_nested_layers(model)
    for module, (_, operations) in outside.items():
        conversion = conversion_of(module)
        if conversion is None or not (conversion.sites or any(left_float(conversion))):
            record_skips(module, (Skip(SkipKind.RAN_OUTSIDE_SITES, tuple(operations)),))


def _showed_no_product(module: nn.Module) -> bool:
    """Return whether conversion found no reason to skip a module, except that its code shows no product."""
    return all(skip.kind.denies_products for skip in recorded_skips(module))
