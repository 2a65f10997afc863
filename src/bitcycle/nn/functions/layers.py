"""Linear maps and convolutions: the second operand is a weight by definition."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.arithmetic import ConvolutionProduct, LinearProduct, OperandSpec, Role, round_operand
from bitcycle.nn.convolution import activation_dims, transposed_weight_on_grid
from bitcycle.nn.functions.composed import compute_composed, keeps_zeros, masked_operand
from bitcycle.nn.functions.sites import DiscoveredSites
from bitcycle.nn.layer import feature_dims, weight_dims


def compute_linear(call: DiscoveredSites, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute ``F.linear``."""
    bias = call.round_bias(call.local, bias)
    if weight.dim() == 1:  # one output, without a dimension for it
        out = compute_linear(call, input, weight.unsqueeze(0)).squeeze(-1)
        return out if bias is None else out + bias
    x_spec = OperandSpec(feature_dims(call.recipe.activations, input), role=Role.ACTIVATION)
    weight_spec = OperandSpec(weight_dims(call.recipe.weights, weight), role=Role.WEIGHT)
    weight, weight_spec = masked_operand(call, weight, weight_spec, "b", input)
    return call.multiply(call.local, LinearProduct(), input, weight, bias, a_spec=x_spec, b_spec=weight_spec)


def compute_linear_cross_entropy(
    call: DiscoveredSites,
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    ignore_index: int | None = None,
    options: Any = None,
    **others: Any,
) -> Tensor:
    """Compute the linear map of ``F.linear_cross_entropy`` at its site, with all logits in memory at once."""
    bias = None if linear_bias is None else linear_bias.flatten()
    logits = compute_linear(call, input, linear_weight.flatten(0, -2), bias)
    ignore_index = -100 if ignore_index is None else ignore_index  # the default of F.cross_entropy
    return F.cross_entropy(logits.unflatten(-1, linear_weight.shape[:-1]), target, ignore_index=ignore_index, **others)


def compute_convolution(
    call: DiscoveredSites,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    output_padding: Any = None,
) -> Any:
    """Compute a convolution, with ``output_padding`` a transposed one."""
    if input.dim() != weight.dim():  # an input without a batch
        geometry = (stride, padding, dilation, groups, output_padding)
        return compute_convolution(call, input.unsqueeze(0), weight, bias, *geometry).squeeze(0)
    bias = call.round_bias(call.local, bias)
    x_spec = OperandSpec(activation_dims(call.recipe.activations, input), role=Role.ACTIVATION)
    if isinstance(padding, str):  # torch works out what the padding is, which can differ from side to side
        specs = x_spec, OperandSpec(weight_dims(call.recipe.weights, weight), role=Role.WEIGHT)
        function = lambda x, w: call.func(x, w, bias, stride, padding, dilation, groups)  # noqa: E731
        return compute_composed(call, function, (input, weight), specs)
    stride, padding, dilation = (_per_dimension(value, weight.dim() - 2) for value in (stride, padding, dilation))
    if output_padding is None:
        product = ConvolutionProduct(stride, padding, dilation, groups)
        on_grid, dims = weight, weight_dims(call.recipe.weights, weight)
    else:
        added = _per_dimension(output_padding, weight.dim() - 2)
        product = ConvolutionProduct(stride, padding, dilation, groups, True, added)
        on_grid, dims = transposed_weight_on_grid(call.site(), weight, groups)
    if on_grid.dim() == weight.dim():
        weight, weight_spec = masked_operand(call, weight, OperandSpec(dims, role=Role.WEIGHT), "b", input)
    else:
        rounded = round_operand(call.site(), on_grid, dims, call.training, "b", Role.WEIGHT).flatten(0, 1)
        weight = torch.where(weight == 0, weight, rounded) if keeps_zeros(call, weight, input) else rounded
        weight_spec = OperandSpec(already_rounded=True, role=Role.WEIGHT)
    return call.multiply(call.local, product, input, weight, bias, a_spec=x_spec, b_spec=weight_spec)


def compute_transposed_convolution(
    call: DiscoveredSites,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Compute a transposed convolution, whose function has its arguments in another order."""
    return compute_convolution(call, input, weight, bias, stride, padding, dilation, groups, output_padding)


def compute_time_first_convolution(
    call: DiscoveredSites, input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0
) -> Any:
    """Compute ``F.conv_tbc``, with input (time, batch, features) and weight (time, in, out)."""
    x_spec = OperandSpec(feature_dims(call.recipe.activations, input), role=Role.ACTIVATION)
    weight_spec = OperandSpec(weight_dims(call.recipe.weights, weight, 2), role=Role.WEIGHT)
    bias_on_grid = call.round_bias(call.local, bias)
    function = lambda x, w: call.func(x, w, bias_on_grid, pad)  # noqa: E731
    return compute_composed(call, function, (input, weight), (x_spec, weight_spec))


def _per_dimension(value: Any, dimensions: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * dimensions if len(values) == 1 else values
