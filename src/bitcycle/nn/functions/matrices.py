"""Matrix products, of batches and of groups, chains of them, and their sums with an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bitcycle.arithmetic import MatmulProduct
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.functions.composed import composed_dims, compute_composed, in_order, masked_spec, operand_specs
from bitcycle.nn.functions.sites import DiscoveredSites
from bitcycle.nn.layer import feature_dims, weight_dims


def compute_matmul(call: DiscoveredSites, *args: Any, **kwargs: Any) -> Any:
    """Compute a matrix product."""
    operands, others = in_order(args, kwargs)
    if len(operands) != 2 or others:
        return NotImplemented
    a, b = operands
    if min(a.dim(), b.dim()) < 2:
        return compute_composed(call, torch.matmul, operands)
    a_spec, b_spec = operand_specs(call, (a, b), _matmul_dims(call, a, b))
    a_spec, b_spec = masked_spec(call, a, a_spec, b), masked_spec(call, b, b_spec, a)
    return call.multiply(call.local, MatmulProduct(), a, b, a_spec=a_spec, b_spec=b_spec)


def _matmul_dims(call: DiscoveredSites, a: Tensor, b: Tensor) -> tuple[Dims, Dims]:
    """Return the dimensions that share a grid. A matrix that multiplies a batch, or a parameter, is a weight."""
    recipe = call.recipe
    if isinstance(b, nn.Parameter) or b.dim() == 2:
        return feature_dims(recipe.activations, a), weight_dims(recipe.weights, b, b.dim() - 1)
    if isinstance(a, nn.Parameter) or a.dim() == 2:
        # A parameter multiplies features. Another matrix can be a mask that mixes tokens.
        features = -2 if isinstance(a, nn.Parameter) else _vector_dim(b)
        return weight_dims(recipe.weights, a, a.dim() - 2), feature_dims(recipe.activations, b, features)
    one_column = a.shape[-1] == 1  # an outer product
    return (
        feature_dims(recipe.attention, a, -2 if one_column else -1),
        feature_dims(recipe.attention, b, _vector_dim(b)),
    )


def _vector_dim(x: Tensor) -> int:
    """Return the dimension of the feature vectors of tokens: the last but one in a transposed view or a column vector.

    As ``k.mT`` in ``q @ k.mT``: the features of a token are a column.
    """
    if 1 in x.shape[-2:]:
        return -2 if x.shape[-1] == 1 else -1
    return -2 if x.stride(-2) < x.stride(-1) else -1


def compute_reflected_matmul(call: DiscoveredSites, input: Tensor, other: Tensor) -> Any:
    """Compute ``other @ input``."""
    return compute_matmul(call, other, input)


def adding(multiply: Callable[..., Any], in_place: bool) -> Callable[..., Any]:
    """Compute ``beta * input + alpha * product`` with its product at a site, and write it to the input if in place."""

    def compute(call: DiscoveredSites, *args: Any, **kwargs: Any) -> Any:
        operands, others = in_order(args, kwargs)
        if len(operands) != 3:
            return NotImplemented
        added, alpha, beta = operands[0], others.get("alpha", 1), others.get("beta", 1)
        product = multiply(call, *operands[1:])
        product = product if alpha == 1 else alpha * product
        if not in_place:
            added = added.to(product.dtype)  # autocast converts all operands of the function
            return product if beta == 0 else product + (added if beta == 1 else beta * added)
        if product.shape != added.shape:
            return call.func(*args, **kwargs)  # it raises torch's error
        return added.copy_(product) if beta == 0 else (added if beta == 1 else added.mul_(beta)).add_(product)

    return compute


def compute_summed_matmul(call: DiscoveredSites, a: Tensor, b: Tensor) -> Any:
    """Compute the sum over a batch of matrix products."""
    return compute_composed(call, lambda a, b: torch.bmm(a, b).sum(0), (a, b), _matmul_dims(call, a, b))


def compute_grouped_matmul(call: DiscoveredSites, *args: Any, **kwargs: Any) -> Any:
    """Compute a product per group. Groups of a batch ``b`` are weights, one for each group of rows of ``a``."""
    (a, b, *rest), others = in_order(args, kwargs)
    weights = call.recipe.weights
    b_dims = (1,) if b.dim() == 3 and weights == "channel" else weight_dims(weights, b, b.dim() - 1)
    dims = feature_dims(call.recipe.activations, a), b_dims
    return compute_composed(call, lambda a, b: call.func(a, b, *rest, **others), (a, b), dims)


def compute_chain(call: DiscoveredSites, *args: Any, tensors: Any = None, out: None = None) -> Any:
    """Compute a chain of matrix products at one site. All matrices but the first are rounded like weights."""
    given: tuple[Tensor, ...] = tuple(tensors or (args[0] if isinstance(args[0], (list, tuple)) else args))
    if len(given) < 2:
        return NotImplemented
    dims = [composed_dims(call, given[0], given)]
    dims += [weight_dims(call.recipe.weights, x, 1) if x.dim() > 1 else None for x in given[1:]]
    return compute_composed(call, lambda *matrices: torch.linalg.multi_dot(matrices), given, dims)
