"""Matrix products, of batches and of groups, chains of them, and their sums with an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bitcycle.arithmetic import MatmulProduct
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.functions.composed import (
    Function,
    composed_dims,
    compute_composed,
    dense,
    in_order,
    masked_operand,
    operand_specs,
)
from bitcycle.nn.functions.sites import DiscoveredSites
from bitcycle.nn.layer import feature_dims, weight_dims


def compute_matmul(module: DiscoveredSites, local: str, func: Function, *args: Any, **kwargs: Any) -> Tensor:
    """Compute a matrix product at a site of a module."""
    operands, others = in_order(args, kwargs)
    if len(operands) != 2 or others:
        return module.run_with_output_options(local, func, args, kwargs)
    site = module.site(local)
    if not dense(*operands) or module.is_float(site):
        return func(*args, **kwargs)
    a, b = operands
    if min(a.dim(), b.dim()) < 2:
        return compute_composed(module, site, func, (), (a, b), (), {})
    a_spec, b_spec = operand_specs((a, b), _matmul_dims(module, a, b))
    (a, a_spec), (b, b_spec) = (
        masked_operand(module, site, a, a_spec, "a", b),
        masked_operand(module, site, b, b_spec, "b", a),
    )
    return module.multiply(local, MatmulProduct(), a, b, a_spec=a_spec, b_spec=b_spec)


def _matmul_dims(module: DiscoveredSites, a: Tensor, b: Tensor) -> tuple[Dims, Dims]:
    """Return the dimensions that share a grid. A matrix that multiplies a batch, or a parameter, is a weight."""
    recipe = module.bitcycle.recipe
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


def compute_reflected_matmul(
    module: DiscoveredSites, local: str, func: Function, input: Tensor, other: Tensor
) -> Tensor:
    """Compute ``other @ input`` at a site of a module."""
    return compute_matmul(module, local, torch.matmul, other, input)


def adding(multiply: Callable[..., Any], product_function: Function, in_place: bool) -> Callable[..., Any]:
    """Compute ``beta * input + alpha * product`` with its product at a site, and write it to the input if in place."""

    def compute(module: DiscoveredSites, local: str, func: Function, *args: Any, **kwargs: Any) -> Any:
        operands, others = in_order(args, kwargs)
        if len(operands) != 3 or others.keys() - {"alpha", "beta"}:
            return module.run_with_output_options(local, func, args, kwargs)
        site = module.site(local)
        if not dense(*operands) or module.is_float(site):
            return func(*args, **kwargs)
        added, alpha, beta = operands[0], others.get("alpha", 1), others.get("beta", 1)
        product = multiply(module, local, product_function, *operands[1:])
        product = product if alpha == 1 else alpha * product
        if not in_place:
            added = added.to(product.dtype)  # autocast converts all operands of the function
            return product if beta == 0 else product + (added if beta == 1 else beta * added)
        if product.shape != added.shape:
            return func(*args, **kwargs)  # it raises torch's error
        return added.copy_(product) if beta == 0 else (added if beta == 1 else added.mul_(beta)).add_(product)

    return compute


def compute_summed_matmul(module: DiscoveredSites, local: str, func: Function, a: Tensor, b: Tensor) -> Any:
    """Compute the sum over a batch of matrix products at a site of a module."""
    specs = operand_specs((a, b), _matmul_dims(module, a, b))
    return compute_composed(module, module.site(local), func, (), (a, b), (), {}, specs)


def sum_of_bmm(batch1: Tensor, batch2: Tensor) -> Tensor:
    """Return the sum of the matrix products of two batches."""
    return torch.bmm(batch1, batch2).sum(0)


def compute_grouped_matmul(module: DiscoveredSites, local: str, func: Function, *args: Any, **kwargs: Any) -> Any:
    """Compute a product per group. Groups of a batch ``b`` are weights, one for each group of rows of ``a``."""
    site = module.site(local)
    operands, others = in_order(args, kwargs)
    if not dense(*operands[:2]) or module.is_float(site):
        return func(*args, **kwargs)
    recipe, (a, b) = module.bitcycle.recipe, operands[:2]
    b_dims = (1,) if b.dim() == 3 and recipe.weights == "channel" else weight_dims(recipe.weights, b, b.dim() - 1)
    dims = feature_dims(recipe.activations, a), b_dims
    return compute_composed(module, site, func, (), (a, b), operands[2:], others, operand_specs((a, b), dims))


def compute_chain(module: DiscoveredSites, local: str, func: Function, *args: Any, **kwargs: Any) -> Any:
    """Compute a chain of matrix products at one site. All matrices but the first are rounded like weights."""
    if kwargs.get("out") is not None:
        return module.run_with_output_options(local, func, args, kwargs)
    site = module.site(local)
    tensors = kwargs.get("tensors", args[0] if args and isinstance(args[0], (list, tuple)) else args)
    if len(tensors) < 2 or not dense(*tensors) or module.is_float(site):
        return func(*args, **kwargs)
    dims = [composed_dims(module, tensors[0], tensors)]
    dims += [weight_dims(module.bitcycle.recipe.weights, x, 1) if x.dim() > 1 else None for x in tensors[1:]]
    return compute_composed(module, site, _multiply_chain, (), tuple(tensors), (), {}, operand_specs(tensors, dims))


def _multiply_chain(*matrices: Tensor) -> Tensor:
    return torch.linalg.multi_dot(matrices)
