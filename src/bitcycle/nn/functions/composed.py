"""Functions that are computed as a whole, on rounded operands, and what all functions share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bitcycle.arithmetic import (
    ComposedProduct,
    OperandSpec,
    Role,
    computing,
    report_product,
    round_grad_output,
    round_operand,
)
from bitcycle.arithmetic.observers import current_observers
from bitcycle.arithmetic.precision import role_of
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.functions.sites import DiscoveredSites, Function
from bitcycle.nn.layer import feature_dims, weight_dims
from bitcycle.nn.op_macs import RULES
from bitcycle.nn.tracing import OperationTracer


def compute_composed(
    call: DiscoveredSites, function: Function, operands: tuple[Tensor, ...], dims: Iterable[Dims] | None = None
) -> Any:
    """Run a function on rounded operands, and round the gradient that arrives at its result.

    ``dims`` are the dimensions of each operand that share a grid, by default those of :func:`composed_dims`.
    """
    site = call.site()
    if site.settings.grid.block is not None:
        raise ValueError(
            f"{site.name or 'the model'} is computed as a whole, but blocks of the grid {site.recipe.grid!r} run along "
            f"one summed dimension: write it as torch.matmul or F.linear, or keep it in "
            f"full precision with keep={site.name!r}"
        )
    dims = [composed_dims(call, x, operands) for x in operands] if dims is None else dims
    specs = operand_specs(call, operands, dims)
    roles = [spec.role or Role.ACTIVATION for spec in specs]
    rounded = []
    for i, (x, spec, name) in enumerate(zip(operands, specs, "abcdefghijklmnopqrstuvwxyz", strict=False)):
        value = round_operand(site, x, spec, call.training, name)
        spec = masked_spec(call, x, spec, *operands[:i], *operands[i + 1 :])
        rounded.append(torch.where(x == 0, x, value) if spec.keeps_zeros else value)
    if not current_observers():
        return round_grad_output(site, function(*rounded))
    with computing(site), _MacCounter() as counter:
        out = function(*rounded)
    product = ComposedProduct(call.product.name, counter.macs)
    # The MAC counter records two operands; of more than two, prefer those that need a gradient, weights first.
    order = list(range(len(operands)))
    if len(operands) > 2:
        order.sort(key=lambda i: (not operands[i].requires_grad, roles[i] is Role.ACTIVATION))
    first, second = order[:2]
    roles_of_two = roles[first], roles[second]
    return round_grad_output(site, report_product(site, product, operands[first], operands[second], out, roles_of_two))


def operand_specs(call: DiscoveredSites, operands: Sequence[Tensor], dims: Iterable[Dims]) -> tuple[OperandSpec, ...]:
    """Return how operands are put on their grids. A parameter or a view of one is a weight.

    Batches of matrices without a weight are taken for the operands of an attention product.
    """
    roles = [role_of(x) for x in operands]
    of_attention = Role.WEIGHT not in roles and min(x.dim() for x in operands) > 2
    with_zero = of_attention and call.recipe.attention_zero
    return tuple(OperandSpec(shared, role=role, with_zero=with_zero) for role, shared in zip(roles, dims, strict=True))


def composed_dims(call: DiscoveredSites, x: Tensor, operands: tuple[Tensor, ...]) -> Dims:
    """Return the dimensions of one of the operands that share a grid, where the function does not say what they are."""
    if isinstance(x, nn.Parameter):
        return weight_dims(call.recipe.weights, x) if x.dim() > 1 else None
    return feature_dims(call.recipe.attention if min(y.dim() for y in operands) > 2 else call.recipe.activations, x)


def masked_spec(call: DiscoveredSites, x: Tensor, spec: OperandSpec, *others: Tensor) -> OperandSpec:
    """Return how an operand is put on its grid. What a mask has set to 0 stays 0, also if the grid has no 0.

    Without this, a masked product such as ``(q @ k.mT).tril() @ v`` would see what it must not see.
    """
    return spec._replace(keeps_zeros=True) if keeps_zeros(call, x, *others) else spec


def keeps_zeros(call: DiscoveredSites, x: Tensor, *others: Tensor) -> bool:
    """Return whether zeros of an operand may come from a mask and would be rounded to something else.

    A computed weight or one of two activations can be masked, but not what a weight multiplies.
    """
    if call.site().settings.grid.has_zero or isinstance(x, nn.Parameter):
        return False
    if any(isinstance(other, nn.Parameter) or (x.dim() != 2 and other.dim() <= 2) for other in others):
        return False
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return True  # looking would break the graph, or wait for the device
    return not (x.numel() == 0 or bool(x.all()) or bool(x.min() >= 0))


_OPERAND_NAMES = (
    *("input", "self", "input1", "mat_a", "a", "x", "mat1", "batch1", "mat"),
    *("other", "tensor2", "mat2", "batch2", "vec", "tensor", "mat_b", "b", "y", "input2", "weight"),
)
"""The names of operands in the functions below. A function has its operands in this order."""


def in_order(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the operands by position, also those that were passed by name, and the other named arguments."""
    named = tuple(kwargs[name] for name in _OPERAND_NAMES if name in kwargs)
    absent = ("out", "out_dtype")  # with a value, the function runs unchanged
    return (*args, *named), {name: x for name, x in kwargs.items() if name not in (*_OPERAND_NAMES, *absent)}


class _MacCounter(OperationTracer):
    """Adds up the multiply-accumulates of torch's operations."""

    def __init__(self) -> None:
        super().__init__()
        self.macs = 0

    def saw(self, operation: str, args: tuple[Any, ...], out: Any) -> None:
        if operation in RULES:
            self.macs += sum(part.macs for part in RULES[operation](args, out))
