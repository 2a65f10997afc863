"""Sums of products over any dimensions: Einstein sums, tensor products and products of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bitcycle.arithmetic.observers import current_observers
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.functions.composed import Function, composed_dims, compute_composed, dense, in_order, operand_specs
from bitcycle.nn.functions.sites import DiscoveredSites


def compute_einsum(module: DiscoveredSites, local: str, func: Function, equation: Any, *operands: Any) -> Any:
    """Compute an Einstein sum at a site of a module."""
    site = module.site(local)
    flat = tuple(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if not isinstance(equation, str) or len(flat) < 2 or not dense(*flat) or module.is_float(site):
        return func(equation, *operands)
    specs = operand_specs(flat, _einsum_dims(module, equation, flat))
    return compute_composed(module, site, func, (equation,), flat, (), {}, specs)


def _einsum_dims(module: DiscoveredSites, equation: str, operands: tuple[Tensor, ...]) -> tuple[Dims, ...]:
    """Return the dimensions that share a grid, for each operand."""
    terms, arrow, output = equation.replace(" ", "").partition("->")
    if not arrow:
        output = "".join(index for index in terms if terms.count(index) == 1)
    summed = []
    for term in terms.split(","):
        before, _, after = term.rpartition("...")  # indices after an ellipsis count from the end
        positions = [*enumerate(before), *((d - len(after), index) for d, index in enumerate(after))]
        summed.append(tuple(d for d, index in positions if index not in output))
    return _summing_dims(module, operands, tuple(summed))


def compute_tensordot(
    module: DiscoveredSites, local: str, func: Function, a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None
) -> Any:
    """Compute ``torch.tensordot`` at a site of a module."""
    if out is not None:
        return module.run_with_output_options(local, func, (a, b, dims), {"out": out})
    site = module.site(local)
    if isinstance(dims, Tensor) or not dense(a, b) or module.is_float(site):
        return func(a, b, dims)
    given = (range(-dims, 0), range(dims)) if isinstance(dims, int) else dims
    summed = tuple((d,) if isinstance(d, int) else tuple(d) for d in given)
    specs = operand_specs((a, b), _summing_dims(module, (a, b), summed))
    return compute_composed(module, site, func, (), (a, b), (dims,), {}, specs)


def compute_vector_products(module: DiscoveredSites, local: str, func: Function, *args: Any, **kwargs: Any) -> Any:
    """Compute one sum of products for each pair of vectors along a dimension."""
    operands, others = in_order(args, kwargs)
    if len(operands) != 2 or others.keys() - {"dim"}:
        return module.run_with_output_options(local, func, args, kwargs)
    site = module.site(local)
    if not dense(*operands):
        return func(*args, **kwargs)
    if current_observers():
        func = _multiply_vectors  # torch's function multiplies elementwise, which no count of products includes
    if module.is_float(site):
        return func(*operands, **others)
    dim = others.get("dim", -1)
    dim -= max(x.dim() for x in operands) if dim >= 0 else 0  # from the end, as operands are broadcast
    summed = tuple((dim,) if -dim <= x.dim() else () for x in operands)
    specs = operand_specs(operands, _summing_dims(module, operands, summed))
    return compute_composed(module, site, func, (), operands, (), others, specs)


def _multiply_vectors(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    x, y = (t.movedim(dim, -1) for t in torch.broadcast_tensors(x, y))
    return (x.unsqueeze(-2) @ y.unsqueeze(-1)).squeeze((-2, -1))


def _summing_dims(
    module: DiscoveredSites, operands: tuple[Tensor, ...], summed: tuple[tuple[int, ...], ...]
) -> tuple[Dims, ...]:
    """Return the dimensions that share a grid, for each operand of a product over the dimensions ``summed``.

    They are the summed dimensions of a parameter and of what it multiplies, as in a linear layer.
    """
    recipe = module.bitcycle.recipe
    has_weight = any(isinstance(x, nn.Parameter) for x in operands)
    dims = []
    for x, along in zip(operands, summed, strict=True):
        fallback = composed_dims(module, x, operands)
        per_output = recipe.weights == "channel" if isinstance(x, nn.Parameter) else fallback == (-1,)
        dims.append(along if has_weight and along and per_output else fallback)
    return tuple(dims)


def at_operands(first: int, last: int) -> Callable[..., Any]:
    """Compute a function on rounded operands, which are at these positions of its arguments."""

    def compute(module: DiscoveredSites, local: str, func: Function, *args: Any, **kwargs: Any) -> Any:
        site = module.site(local)
        bound, others = in_order(args, kwargs)
        operands = bound[first : last + 1]
        if len(operands) != last + 1 - first or not dense(*operands) or module.is_float(site):
            return func(*args, **kwargs)
        return compute_composed(module, site, func, bound[:first], operands, bound[last + 1 :], others)

    return compute
