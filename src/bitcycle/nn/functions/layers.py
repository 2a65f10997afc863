"""Functions of layers: linear maps and convolutions, whose second operand is a weight, and attention."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.arithmetic import LinearProduct, OperandSpec, Role
from bitcycle.nn.functions.composed import keeps_zeros, masked_spec
from bitcycle.nn.functions.sites import DiscoveredSites
from bitcycle.nn.layer import feature_dims, weight_dims
from bitcycle.nn.site_names import join_names


def compute_linear(call: DiscoveredSites, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute ``F.linear``."""
    bias = call.round_bias(call.local, bias)
    if weight.dim() == 1:  # one output, without a dimension for it
        out = compute_linear(call, input, weight.unsqueeze(0)).squeeze(-1)
        return out if bias is None else out + bias
    x_spec = OperandSpec(feature_dims(call.recipe.activations, input), role=Role.ACTIVATION)
    weight_spec = OperandSpec(weight_dims(call.recipe.weights, weight), role=Role.WEIGHT)
    weight_spec = masked_spec(call, weight, weight_spec, input)
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
    *output_padding: Any,
) -> Any:
    """Compute a convolution, with ``output_padding`` a transposed one."""
    spec = OperandSpec(weight_dims(call.recipe.weights, weight), role=Role.WEIGHT)
    on_grid = weight
    if output_padding:
        on_grid, spec = call.transposed_weight(call.local, weight, groups)
    if not spec.already_rounded:
        spec = masked_spec(call, weight, spec, input)
    elif keeps_zeros(call, weight, input):
        on_grid = torch.where(weight == 0, weight, on_grid)
    geometry = (stride, padding, dilation, groups, *output_padding)
    return call.convolve(call.local, input, on_grid, spec, bias, *geometry)


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
    return compute_convolution(call, input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad).permute(2, 0, 1)


def compute_attention(
    call: DiscoveredSites,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute scaled dot-product attention at the sites ``scores`` and ``context``."""
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], dim=-3) for x in (key, value))
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -math.inf)
    if is_causal:
        allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        attn_mask = query.new_zeros(()) if attn_mask is None else attn_mask  # fused kernels take both
        attn_mask = attn_mask.masked_fill(~allowed, -math.inf)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    names = join_names(call.local, "scores"), join_names(call.local, "context")
    return call.attend(query, key, value, attn_mask, factor, dropout_p, fused=True, sites=names)[0]
