"""Sums of products over any dimensions: Einstein sums, tensor products and products of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.kernels.rounding import Dims
from bitcycle.nn.functions.composed import composed_dims, compute_composed, in_order
from bitcycle.nn.functions.sites import DiscoveredSites


def compute_einsum(call: DiscoveredSites, equation: Any, *operands: Any) -> Any:
    """Compute an Einstein sum."""
    flat = tuple(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if not isinstance(equation, str) or len(flat) < 2:
        return NotImplemented
    terms, arrow, output = equation.replace(" ", "").partition("->")
    if not arrow:
        output = "".join(index for index in terms if terms.count(index) == 1)
    summed = []
    for term in terms.split(","):
        before, _, after = term.rpartition("...")  # indices after an ellipsis count from the end
        positions = [*enumerate(before), *((d - len(after), index) for d, index in enumerate(after))]
        summed.append(tuple(d for d, index in positions if index not in output))
    dims = _summing_dims(call, flat, summed)
    return compute_composed(call, lambda *rounded: torch.einsum(equation, *rounded), flat, dims)


def compute_tensordot(call: DiscoveredSites, a: Tensor, b: Tensor, dims: Any = 2, out: None = None) -> Any:
    """Compute ``torch.tensordot``."""
    if isinstance(dims, Tensor):
        return NotImplemented
    given = (range(-dims, 0), range(dims)) if isinstance(dims, int) else dims
    summed = [(d,) if isinstance(d, int) else tuple(d) for d in given]
    grids = _summing_dims(call, (a, b), summed)
    return compute_composed(call, lambda a, b: torch.tensordot(a, b, dims), (a, b), grids)


def compute_vector_products(call: DiscoveredSites, *args: Any, **kwargs: Any) -> Any:
    """Compute one sum of products for each pair of vectors along a dimension."""
    operands, others = in_order(args, kwargs)
    dim = others.get("dim", -1)
    dim -= max(x.dim() for x in operands) if dim >= 0 else 0  # from the end, as operands are broadcast
    summed = [(dim,) if -dim <= x.dim() else () for x in operands]
    dims = _summing_dims(call, operands, summed)
    return compute_composed(call, lambda x, y: call.func(x, y, dim=dim), operands, dims)


def multiply_vectors(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Compute ``torch.linalg.vecdot``, which multiplies elementwise, by a product that can be counted."""
    x, y = (t.movedim(dim, -1) for t in torch.broadcast_tensors(x, y))
    return (x.unsqueeze(-2) @ y.unsqueeze(-1)).squeeze((-2, -1))


def _summing_dims(
    call: DiscoveredSites, operands: tuple[Tensor, ...], summed: Sequence[tuple[int, ...]]
) -> tuple[Dims, ...]:
    """Return the dimensions that share a grid, for each operand of a product over the dimensions ``summed``.

    They are the summed dimensions of a parameter and of what it multiplies, as in a linear layer.
    """
    has_weight = any(isinstance(x, nn.Parameter) for x in operands)
    dims = []
    for x, along in zip(operands, summed, strict=True):
        fallback = composed_dims(call, x, operands)
        per_output = call.recipe.weights == "channel" if isinstance(x, nn.Parameter) else fallback == (-1,)
        dims.append(along if has_weight and along and per_output else fallback)
    return tuple(dims)


def compute_inner(call: DiscoveredSites, *args: Any, **kwargs: Any) -> Any:
    """Compute ``torch.inner``."""
    operands, _ = in_order(args, kwargs)
    return compute_composed(call, torch.inner, operands)


def compute_bilinear(
    call: DiscoveredSites, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Any:
    """Compute ``F.bilinear``: one product of three operands."""
    bias = call.round_bias(call.local, bias)
    return compute_composed(call, lambda x1, x2, w: F.bilinear(x1, x2, w, bias), (input1, input2, weight))
