"""Count the products of a model by running it once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bitcycle._cost.model_cost import Cost, Row
from bitcycle.arithmetic import AggregationProduct, Counted, Observer, Role, Site, observing
from bitcycle.arithmetic.control import ACTIVATIONS, BACKWARD, EVALUATE_ACTIVATIONS, EVALUATE_WEIGHTS, WEIGHTS
from bitcycle.arithmetic.op_macs import RULES
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.conversion.modules import apply_conversion, convert_module, hide_kept_layers, restore_layer
from bitcycle.conversion.running import preserve_state, run_on_copies
from bitcycle.conversion.sites import conversions, named_sites
from bitcycle.nn.families import load_families
from bitcycle.nn.functional_ops import KeptLayer
from bitcycle.nn.functions.sites import has_own_backward, running_autograd_function
from bitcycle.nn.layer import Conversion, conversion_of, original_class
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
        floating = stack.enter_context(_everything_a_site(model))
        stack.enter_context(preserve_state(model))
        for site in named_sites(model).values():
            site.control[[WEIGHTS, ACTIVATIONS, BACKWARD, EVALUATE_WEIGHTS, EVALUATE_ACTIVATIONS]] = 0
        tally = _Tally()
        normalised = stack.enter_context(_normalised_elements(model))
        stack.enter_context(observing(tally))
        stack.enter_context(ProductTracer(model, tally.outside))
        stack.enter_context(torch.enable_grad())
        with _ElementwiseSums() as sums:
            run_on_copies(model, example_inputs)
        rows = tally.rows(model, floating)
        uncounted = [*tally.uncounted, *_never_counted(model, sums)]
    grid = next((conversion.recipe.grid for _, conversion in conversions(model)), EVERYTHING.grid)
    return Cost(rows, tuple(uncounted), normalised[0], grid)


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

    def row(self, name: str, layer: str, quantized: bool, roles: tuple[Role, Role] | None = None) -> Row:
        weight_quantized = self.product != AggregationProduct.kind
        counts = (self.macs, self.input_gradient, self.weight_gradient)
        a, b = (Role.ACTIVATION, Role.WEIGHT) if roles is None else roles
        return Row(name, layer, self.product, *counts, quantized, weight_quantized, (a.value, b.value))


class _Tally(Observer):
    """Adds up the products of sites and the products that run outside of sites."""

    def __init__(self) -> None:
        self.counts: dict[Site | tuple[str, str, str], _Counts] = {}
        self.uncounted: list[str] = []

    def multiplied(self, site: Site, product: Counted, a: Tensor, b: Tensor | None, out: Tensor) -> None:
        shape_of_b = torch.Size() if b is None else b.shape
        counts = self.counts.setdefault(site, _Counts(product.kind))
        macs = product.macs(a.shape, shape_of_b, out.shape)
        function = None if torch.is_grad_enabled() else running_autograd_function()
        if function is not None and has_own_backward(function):  # the site does not compute its gradients
            counts.macs += macs
            self._note(f"gradient products of {function.__name__} at {site.name or 'the model'}")
        else:
            counts.add(macs, a, b)

    def outside(self, name: str, module: nn.Module, operation: str, args: tuple[Any, ...], out: Any) -> None:
        """Count a product outside of sites by the rules for torch's operations, in full precision."""
        layer = original_class(module).__name__
        if operation not in RULES:
            self._note(f"{operation} in {name or 'the model'} ({layer})")
            return
        counts = self.counts.setdefault((name, layer, operation), _Counts(operation))
        for a, b, macs in RULES[operation](args, out):
            counts.add(macs, a, b)

    def _note(self, text: str) -> None:
        """Name products that are not counted."""
        if text not in self.uncounted:
            self.uncounted.append(text)

    def rows(self, model: nn.Module, floating: set[nn.Module]) -> tuple[Row, ...]:
        """Return a row per product; ``floating`` are the modules that count as full precision."""
        labels = {
            site: (join_names(name, local), conversion.original.__name__, site.skip is None and module not in floating)
            for name, module in model.named_modules()
            if (conversion := conversion_of(module)) is not None
            for local, site in conversion.sites.items()
        }
        return tuple(
            counts.row(*labels[key], key.roles) if isinstance(key, Site) else counts.row(*key[:2], quantized=False)
            for key, counts in self.counts.items()
        )


@contextmanager
def _everything_a_site(model: nn.Module) -> Iterator[set[nn.Module]]:
    """Temporarily convert every layer that is not converted, and yield those that count as full precision.

    A float model is counted as if it were converted, except for aggregation. In a converted one, skipped layers are in
    full precision.
    """
    is_float = all(conversion_of(module) is None for module in model.modules())
    kept = [
        (module, conversion)
        for module in model.modules()
        if (conversion := conversion_of(module)) is not None and conversion.mixin is KeptLayer
    ]
    added: set[nn.Module] = set()
    floating: set[nn.Module] = set()
    extra: list[tuple[Conversion, str]] = []
    try:
        for module, _ in kept:
            restore_layer(module)
        for name, module in list(model.named_modules()):
            if (converted := conversion_of(module)) is not None:
                for local in converted.mixin.site_names(module, EVERYTHING):
                    if local not in converted.sites:
                        skip = Skip(SkipKind.FULL_PRECISION_AGGREGATION)
                        converted.sites[local] = Site(join_names(name, local), EVERYTHING, skip)
                        extra.append((converted, local))
                continue
            if owner_of(name, model) is not None:
                continue
            convert_module(name, module, EVERYTHING)
            conversion = conversion_of(module)
            if conversion is not None:
                added.add(module)
                if not is_float or "aggregate" in conversion.sites:
                    floating.add(module)
        added.update(hide_kept_layers(model))
        yield floating
    finally:
        for converted, local in extra:
            del converted.sites[local]
        for module in added:
            restore_layer(module)
        for module, conversion in kept:
            apply_conversion(module, conversion)


@contextmanager
def _normalised_elements(model: nn.Module) -> Iterator[list[int]]:
    """Count the elements that layer normalisation returns."""
    count = [0]

    def add(module: nn.Module, arguments: Any, out: Tensor) -> None:
        count[0] += out.numel()

    layers = (module for module in model.modules() if type(module).__name__ == "LayerNorm")
    handles = [layer.register_forward_hook(add) for layer in layers]
    try:
        yield count
    finally:
        for handle in handles:
            handle.remove()


class _ElementwiseSums(TorchFunctionMode):
    """Finds methods that multiply elementwise and sum, in layers that may do so: a product that no function shows."""

    def __init__(self) -> None:
        super().__init__()
        self.methods: dict[nn.Module, list[str]] = {}
        self._product: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in _MULTIPLY:
            self._product = out
        elif func in _SUM and args and args[0] is self._product:
            self._note()
        return out

    def _note(self) -> None:
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            module, method = frame.f_locals.get("self"), frame.f_code.co_name
            conversion = conversion_of(module) if isinstance(module, nn.Module) else None
            if (
                isinstance(module, nn.Module)
                and conversion is not None
                and method in conversion.mixin.elementwise_methods
            ):
                methods = self.methods.setdefault(module, [])
                methods += [method] if method not in methods else []
                return
            frame = frame.f_back


_MULTIPLY = {torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__}
_SUM = {torch.sum, Tensor.sum}


def _never_counted(model: nn.Module, sums: _ElementwiseSums) -> list[str]:
    """Name the multiplications of layers outside of matrix products."""
    uncounted = []
    for name, module in model.named_modules():
        conversion = conversion_of(module)
        if conversion is None:
            continue
        owner = f"{name or 'the model'} ({conversion.original.__name__})"
        weights = conversion.mixin.uncounted_weights(module)
        if weights:
            uncounted.append(f"message weights {', '.join(weights)} of {owner}")
        elif module in sums.methods:
            uncounted.append(f"elementwise products in {', '.join(sums.methods[module])} of {owner}")
    return uncounted
