"""Functions that are computed as a whole, on rounded operands, and what all functions share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from bitcycle.arithmetic import (
    ComposedProduct,
    OperandSpec,
    Role,
    Site,
    computing,
    report_product,
    round_grad_output,
    round_operand,
)
from bitcycle.arithmetic.observers import current_observers
from bitcycle.arithmetic.op_macs import RULES
from bitcycle.arithmetic.precision import role_of
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.functions.sites import DiscoveredSites
from bitcycle.nn.layer import feature_dims, weight_dims

Function = Callable[..., Any]


def compute_composed(
    module: DiscoveredSites,
    site: Site,
    func: Function,
    before: tuple[Any, ...],
    operands: tuple[Tensor, ...],
    after: tuple[Any, ...],
    kwargs: dict[str, Any],
    specs: tuple[OperandSpec, ...] | None = None,
) -> Any:
    """Run a function on rounded operands, and round the gradient that arrives at its result.

    ``specs`` are how the operands are put on their grids.
    """
    if site.settings.grid.block is not None:
        raise ValueError(
            f"{site.name} is computed as a whole, but blocks of the grid {site.recipe.grid!r} run along one summed "
            f"dimension: write it as torch.matmul or F.linear, or keep it in full precision with keep={site.name!r}"
        )
    if specs is None:
        specs = operand_specs(operands, [composed_dims(module, x, operands) for x in operands])
    roles = [spec.role or Role.ACTIVATION for spec in specs]
    rounded = []
    for i, (x, spec, name) in enumerate(zip(operands, specs, "abcdefghijklmnopqrstuvwxyz", strict=False)):
        if not spec.already_rounded:
            x, spec = masked_operand(module, site, x, spec, name, *operands[:i], *operands[i + 1 :])
        rounded.append(
            x if spec.already_rounded else round_operand(site, x, spec.dims, module.training, name, spec.role)
        )
    if not current_observers():
        return round_grad_output(site, func(*before, *rounded, *after, **kwargs))
    with computing(site), _MacCounter() as counter:
        out = func(*before, *rounded, *after, **kwargs)
    product = ComposedProduct(func.__name__.strip("_"), counter.macs)
    # The MAC counter records two operands; of more than two, prefer those that need a gradient, weights first.
    order = list(range(len(operands)))
    if len(operands) > 2:
        order.sort(key=lambda i: (not operands[i].requires_grad, roles[i] is Role.ACTIVATION))
    first, second = order[:2]
    roles_of_two = roles[first], roles[second]
    return round_grad_output(site, report_product(site, product, operands[first], operands[second], out, roles_of_two))


def operand_specs(operands: Iterable[Tensor], dims: Iterable[Dims]) -> tuple[OperandSpec, ...]:
    """Return how operands are put on their grids. A parameter or a view of one is a weight."""
    return tuple(OperandSpec(shared, role=role_of(x)) for x, shared in zip(operands, dims, strict=True))


def composed_dims(module: DiscoveredSites, x: Tensor, operands: tuple[Tensor, ...]) -> Dims:
    """Return the dimensions of one of the operands that share a grid, where the function does not say what they are."""
    recipe = module.bitcycle.recipe
    if isinstance(x, nn.Parameter):
        return weight_dims(recipe.weights, x) if x.dim() > 1 else None
    return feature_dims(recipe.attention if min(y.dim() for y in operands) > 2 else recipe.activations, x)


def masked_operand(
    module: DiscoveredSites, site: Site, x: Tensor, spec: OperandSpec, name: str, *others: Tensor
) -> tuple[Tensor, OperandSpec]:
    """Return an operand and how it is put on its grid. What a mask has set to 0 stays 0, also if the grid has no 0.

    Without this, a masked product such as ``(q @ k.mT).tril() @ v`` would see what it must not see.
    """
    if not keeps_zeros(site, x, *others):
        return x, spec
    rounded = round_operand(site, x, spec.dims, module.training, name, spec.role)
    return torch.where(x == 0, x, rounded), spec._replace(already_rounded=True)


def keeps_zeros(site: Site, x: Tensor, *others: Tensor) -> bool:
    """Return whether zeros of an operand may come from a mask and would be rounded to something else."""
    if site.settings.grid.has_zero or not all(_can_be_masked(x, other) for other in others):
        return False
    return not _has_only_zeros_on_grid(x)


def _can_be_masked(x: Tensor, other: Tensor) -> bool:
    """Return whether an operand is a computed weight or one of two activations, and not what a weight multiplies."""
    return not isinstance(x, nn.Parameter) and not isinstance(other, nn.Parameter) and (x.dim() == 2 or other.dim() > 2)


def _has_only_zeros_on_grid(x: Tensor) -> bool:
    """Return whether zeros need no care; False if only a compiled graph or another device could tell."""
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return False
    return x.numel() == 0 or bool(x.all()) or bool(x.min() >= 0)


_OPERAND_NAMES = (
    *("input", "self", "input1", "mat_a", "a", "x", "mat1", "batch1", "mat"),
    *("other", "tensor2", "mat2", "batch2", "vec", "tensor", "mat_b", "b", "y", "input2", "weight"),
)
"""The names of operands in the functions below. A function has its operands in this order."""


def in_order(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the operands by position, also those that were passed by name, and the other named arguments."""
    named = tuple(kwargs[name] for name in _OPERAND_NAMES if name in kwargs)
    defaults = [name for name in ("out", "out_dtype") if kwargs.get(name) is None]
    others = {name: value for name, value in kwargs.items() if name not in _OPERAND_NAMES and name not in defaults}
    return (*args, *named), others


def dense(*operands: Any) -> bool:
    """Return whether all operands are dense tensors of floats."""
    return all(isinstance(x, Tensor) and x.is_floating_point() and x.layout is torch.strided for x in operands)


class _MacCounter(TorchDispatchMode):
    """Adds up the multiply-accumulates of torch's operations."""

    def __init__(self) -> None:
        super().__init__()
        self.macs = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        rule = RULES.get(func._schema.name.partition("::")[2])
        if rule is None and torch.is_inference_mode_enabled():
            with self:  # inference mode does not show the operations inside it
                out = func.decompose(*args, **kwargs)
            return func(*args, **kwargs) if out is NotImplemented else out
        out = func(*args, **kwargs)
        self.macs += sum(part.macs for part in rule(args, out)) if rule is not None else 0
        return out
