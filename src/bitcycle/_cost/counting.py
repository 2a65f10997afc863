"""Count the products of a model by running it once."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bitcycle._cost.model_cost import Cost, Row
from bitcycle.arithmetic import AggregationProduct, Counted, Role, Site
from bitcycle.arithmetic.control import ACTIVATIONS, BACKWARD, EVALUATE_ACTIVATIONS, EVALUATE_WEIGHTS, WEIGHTS
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.conversion.modules import apply_conversion, convert_module, hide_kept_layers, restore_layer
from bitcycle.conversion.running import preserve_state, run_on_copies
from bitcycle.conversion.sites import conversions, named_sites
from bitcycle.nn.families import load_families
from bitcycle.nn.functional_ops import KeptLayer
from bitcycle.nn.functions.sites import has_own_backward, running_autograd_function
from bitcycle.nn.layer import Conversion, conversion_of, original_class
from bitcycle.nn.op_macs import RULES
from bitcycle.nn.registry import owner_of
from bitcycle.nn.site_names import join_names
from bitcycle.nn.tracing import ProductTracer

EVERYTHING = Recipe(aggregation="quantized")
"""A recipe under which every product of a model is a site and can be counted."""


def cost(model: nn.Module, example_inputs: Any) -> Cost:
    """Count the cost of one training step of a model.

    The model runs forward once, on copies of the inputs, on the device it is on (``meta`` included). Its buffers, the
    attributes of its modules, its bits and the random state are restored afterwards. Every product that runs is
    counted, with the gradient products that training computes: none for an input or a weight that needs no gradient,
    and none under ``torch.no_grad``. In a converted model, layers that were skipped count as full precision; in a float
    model all layers count as sites, as after ``bc.quantize(model)``.

    Args:
        model: A float or converted model.
        example_inputs: Inputs of one training step: a tensor, a tuple of arguments, or a dict of keyword arguments.

    Returns:
        The cost, with one row per product and the names of products that cannot be counted.

    Example:
        >>> c = cost(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), torch.zeros(10, 8))
        >>> c.macs, c.bitops(forward=None, backward=None) // 32**2
        (400, 880)
    """
    load_families()
    with ExitStack() as stack:
        full_precision = stack.enter_context(_everything_a_site(model))
        stack.enter_context(preserve_state(model))
        for site in named_sites(model).values():
            site.control[[WEIGHTS, ACTIVATIONS, BACKWARD, EVALUATE_WEIGHTS, EVALUATE_ACTIVATIONS]] = 0
        counter = stack.enter_context(_Counter(model))
        stack.enter_context(torch.enable_grad())
        run_on_copies(model, example_inputs)
        rows, uncounted = counter.rows(full_precision), counter.named_uncounted()
    grid = next((conversion.recipe.grid for _, conversion in conversions(model)), EVERYTHING.grid)
    return Cost(rows, uncounted, counter.normalised, grid)


@dataclass
class _Counts:
    """The running counts of one product."""

    product: str
    macs: int = 0
    input_gradient: int = 0
    weight_gradient: int = 0

    def add(self, macs: int, a: Tensor, b: Tensor | None) -> None:
        self.macs += macs
        if not torch.is_grad_enabled() and running_autograd_function() is None:
            return
        self.input_gradient += macs if a.requires_grad else 0
        self.weight_gradient += macs if b is not None and b.requires_grad else 0


class _Counter(ProductTracer):
    """Adds up the products of sites and those that run outside of sites, and names what it cannot count."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, self._count_outside)
        self.model = model
        self.counts: dict[Site | tuple[str, str, str], _Counts] = {}
        self.uncounted: dict[str, None] = {}  # in order, once each
        self.normalised = 0
        """Number of elements that layer normalisation returned."""
        self._product: Tensor | None = None
        self._sum_elementwise: set[nn.Module] = set()

    def multiplied(self, site: Site, product: Counted, a: Tensor, b: Tensor | None, out: Tensor) -> None:
        counts = self.counts.setdefault(site, _Counts(product.kind))
        macs = product.macs(a.shape, torch.Size() if b is None else b.shape, out.shape)
        function = None if torch.is_grad_enabled() else running_autograd_function()
        if function is not None and has_own_backward(function):  # the site does not compute its gradients
            counts.macs += macs
            self.uncounted[f"gradient products of {function.__name__} at {site.name or 'the model'}"] = None
        else:
            counts.add(macs, a, b)

    def _count_outside(self, name: str, module: nn.Module, operation: str, args: tuple[Any, ...], out: Any) -> None:
        """Count a product outside of sites by the rules for torch's operations, in full precision."""
        layer = original_class(module).__name__
        if operation not in RULES:
            self.uncounted[f"{operation} in {name or 'the model'} ({layer})"] = None
            return
        counts = self.counts.setdefault((name, layer, operation), _Counts(operation))
        for a, b, macs in RULES[operation](args, out):
            counts.add(macs, a, b)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Also note the layers that multiply elementwise and sum: a product that no operation shows."""
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if func is torch.ops.aten.mul.Tensor:
            self._product = out
        elif func in _SUMS and args[0] is self._product:
            self._sum_elementwise.add(self._running[-1])
        return out

    def _exit_module(self, module: nn.Module, arguments: Any, result: Any) -> None:
        super()._exit_module(module, arguments, result)
        if type(module).__name__ == "LayerNorm" and isinstance(result, Tensor):
            self.normalised += result.numel()

    def rows(self, full_precision: Container[str]) -> tuple[Row, ...]:
        """Return a row per product, given the names of modules that are in full precision."""
        labels = {
            site: (join_names(name, local), conversion.original.__name__, not (site.skip or name in full_precision))
            for name, conversion in conversions(self.model)
            for local, site in conversion.sites.items()
        }
        rows = []
        for key, each in self.counts.items():
            name, layer, quantized = labels[key] if isinstance(key, Site) else (*key[:2], False)
            a, b = (isinstance(key, Site) and key.roles) or (Role.ACTIVATION, Role.WEIGHT)
            counts = (each.macs, each.input_gradient, each.weight_gradient)
            b_quantized = each.product != AggregationProduct.kind
            rows.append(Row(name, layer, each.product, *counts, quantized, b_quantized, (a.value, b.value)))
        return tuple(rows)

    def named_uncounted(self) -> tuple[str, ...]:
        """Name everything that multiplies and is not counted."""
        uncounted = [*self.uncounted]
        for name, conversion in conversions(self.model):
            module = self.model.get_submodule(name)
            owner = f"{name or 'the model'} ({conversion.original.__name__})"
            weights = conversion.mixin.uncounted_weights(module)
            if weights:
                uncounted.append(f"message weights {', '.join(weights)} of {owner}")
            elif conversion.mixin.sums_elementwise and module in self._sum_elementwise:
                uncounted.append(f"elementwise products in {owner}")
        return tuple(uncounted)


_SUMS = {torch.ops.aten.sum.default, torch.ops.aten.sum.dim_IntList}


@contextmanager
def _everything_a_site(model: nn.Module) -> Iterator[list[str]]:
    """Give every product of a layer a site for the time of a count, and name the modules that are in full precision.

    A float model is counted as if it were converted. In a converted one, other layers are in full precision.
    Aggregation is in full precision unless it is a site already.
    """
    before = {module: conversion_of(module) for module in model.modules()}
    is_float = not any(before.values())
    full_precision: list[str] = []
    added: list[tuple[Conversion, str]] = []
    try:
        for name, module in list(model.named_modules()):
            known = before[module]
            if (known is None or known.mixin is KeptLayer) and owner_of(name, model) is None:
                restore_layer(module)
                convert_module(name, module, Recipe())
                full_precision += [] if is_float else [name]
            conversion = conversion_of(module)
            if conversion is not None:
                for local in {*conversion.mixin.site_names(module, EVERYTHING)} - conversion.sites.keys():
                    skip = Skip(SkipKind.FULL_PRECISION_AGGREGATION)
                    conversion.sites[local] = Site(join_names(name, local), EVERYTHING, skip)
                    added.append((conversion, local))
        hide_kept_layers(model)
        yield full_precision
    finally:
        for conversion, local in added:
            del conversion.sites[local]
        for module, known in before.items():
            if conversion_of(module) is not known:
                restore_layer(module)
                if known is not None:
                    apply_conversion(module, known)
