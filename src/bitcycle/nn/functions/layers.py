"""Linear maps and convolutions: the second operand is a weight by definition."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.arithmetic import ConvolutionProduct, LinearProduct, OperandSpec, Role, round_operand
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.convolution import activation_dims, transposed_weight_on_grid
from bitcycle.nn.functions.composed import Function, compute_composed, dense, keeps_zeros, masked_operand
from bitcycle.nn.functions.sites import DiscoveredSites
from bitcycle.nn.layer import feature_dims, weight_dims
from bitcycle.nn.losses import cross_entropy


def compute_linear(
    module: DiscoveredSites, local: str, func: Function, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Compute ``F.linear`` at a site of a module."""
    site = module.site(local)
    if not dense(input, weight) or module.is_float(site):
        return func(input, weight, bias)
    recipe = module.bitcycle.recipe
    bias = module.round_bias(local, bias)
    if weight.dim() == 1:  # one output, without a dimension for it
        out = compute_linear(module, local, func, input, weight.unsqueeze(0)).squeeze(-1)
        return out if bias is None else out + bias
    a_spec = OperandSpec(feature_dims(recipe.activations, input), role=Role.ACTIVATION)
    dims = weight_dims(recipe.weights, weight)
    weight, b_spec = masked_operand(module, site, weight, OperandSpec(dims, role=Role.WEIGHT), "b", input)
    return module.multiply(local, LinearProduct(), input, weight, bias, a_spec=a_spec, b_spec=b_spec)


def compute_linear_cross_entropy(
    module: DiscoveredSites,
    local: str,
    func: Function,
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    ignore_index: int | None = None,
    options: Any = None,
    **others: Any,
) -> Tensor:
    """Compute the linear map of ``F.linear_cross_entropy`` at a site of a module, with all logits in memory at once."""
    if not dense(input, linear_weight) or module.is_float(module.site(local)):
        others |= {"linear_bias": linear_bias, "ignore_index": ignore_index, "options": options}
        return func(input, linear_weight, target, **others)
    bias = None if linear_bias is None else linear_bias.flatten()
    logits = compute_linear(module, local, F.linear, input, linear_weight.flatten(0, -2), bias)
    return cross_entropy(logits.unflatten(-1, linear_weight.shape[:-1]), target, ignore_index=ignore_index, **others)


def compute_convolution(
    module: DiscoveredSites,
    local: str,
    func: Function,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Compute a convolution at a site of a module."""
    site = module.site(local)
    if not dense(input, weight) or module.is_float(site):
        return func(input, weight, bias, stride, padding, dilation, groups)
    if input.dim() != weight.dim():  # an input without a batch
        geometry = (stride, padding, dilation, groups)
        return compute_convolution(module, local, func, input.unsqueeze(0), weight, bias, *geometry).squeeze(0)
    recipe = module.bitcycle.recipe
    bias = module.round_bias(local, bias)
    dims = activation_dims(recipe.activations, input), weight_dims(recipe.weights, weight)
    if isinstance(padding, str):  # torch works out what the padding is, which can differ from side to side
        after = (bias, stride, padding, dilation, groups)
        return compute_composed(module, site, func, (), (input, weight), after, {}, _layer_specs(*dims))
    stride, padding, dilation = (_per_dimension(value, weight.dim() - 2) for value in (stride, padding, dilation))
    product = ConvolutionProduct(stride, padding, dilation, groups)
    a_spec, weight_spec = _layer_specs(*dims)
    weight, b_spec = masked_operand(module, site, weight, weight_spec, "b", input)
    return module.multiply(local, product, input, weight, bias, a_spec=a_spec, b_spec=b_spec)


def compute_transposed_convolution(
    module: DiscoveredSites,
    local: str,
    func: Function,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Compute a transposed convolution at a site of a module."""
    site = module.site(local)
    after = (stride, padding, output_padding, groups, dilation)
    if not dense(input, weight) or module.is_float(site):
        return func(input, weight, bias, *after)
    if input.dim() != weight.dim():  # an input without a batch
        return compute_transposed_convolution(module, local, func, input.unsqueeze(0), weight, bias, *after).squeeze(0)
    bias = module.round_bias(local, bias)
    on_grid, dims = transposed_weight_on_grid(site, weight, groups)
    input_spec, weight_spec = _layer_specs(activation_dims(site.recipe.activations, input), dims)
    if on_grid.dim() != weight.dim():
        rounded = round_operand(site, on_grid, dims, module.training, "b", Role.WEIGHT).flatten(0, 1)
        weight = torch.where(weight == 0, weight, rounded) if keeps_zeros(site, weight, input) else rounded
        weight_spec = OperandSpec(already_rounded=True, role=Role.WEIGHT)
    specs = input_spec, weight_spec
    return compute_composed(module, site, func, (), (input, weight), (bias, *after), {}, specs)


def compute_time_first_convolution(
    module: DiscoveredSites, local: str, func: Function, input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0
) -> Any:
    """Compute ``F.conv_tbc``, with input (time, batch, features) and weight (time, in, out), at a site of a module."""
    site = module.site(local)
    if not dense(input, weight) or module.is_float(site):
        return func(input, weight, bias, pad)
    recipe = module.bitcycle.recipe
    specs = _layer_specs(feature_dims(recipe.activations, input), weight_dims(recipe.weights, weight, 2))
    bias_on_grid = module.round_bias(local, bias)
    return compute_composed(module, site, func, (), (input, weight), (bias_on_grid, pad), {}, specs)


def _layer_specs(input_dims: Dims, dims_of_weight: Dims) -> tuple[OperandSpec, OperandSpec]:
    """Return how the operands of a function are put on their grids whose second argument is a weight by definition."""
    return OperandSpec(input_dims, role=Role.ACTIVATION), OperandSpec(dims_of_weight, role=Role.WEIGHT)


def _per_dimension(value: Any, dimensions: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * dimensions if len(values) == 1 else values
