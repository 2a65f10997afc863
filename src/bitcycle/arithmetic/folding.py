"""Scales along the dimension that a gradient product sums over, folded into grad_output.

For an operand with values ``s_n unit_n + middle_n`` along the summed dimension,

    sum_n E_n (s_n unit_n + middle_n) = sum_n (E_n s_n) unit_n + sum_n E_n middle_n

The first sum is rounded and multiplied like any gradient product, with ``E_n s_n`` as grad_output and ``unit`` as the
operand. The second does not depend on the element of the gradient within its row: it is a number for each row, and is
computed in floating point from the unrounded grad_output.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bitcycle.arithmetic.operands import OperandSpec
from bitcycle.arithmetic.products import ConvolutionProduct, LinearProduct, Product
from bitcycle.kernels.images import has_channels_last


def folds_a(product: Product, spec: OperandSpec) -> bool:
    """Return whether the weight gradient sums over scales of operand ``a``: those of the rows of a linear layer."""
    return isinstance(product, LinearProduct) and spec.dims == (-1,)


def folds_b(product: Product, spec: OperandSpec) -> bool:
    """Return whether the input gradient sums over scales of operand ``b``: those of output channels."""
    if isinstance(product, ConvolutionProduct):
        by_channel = tuple(range(1, len(product.stride) + 2))
        return not product.transposed and product.groups == 1 and spec.dims == by_channel
    return isinstance(product, LinearProduct) and spec.dims in ((1,), (-1,))


def fold_a(grad_output: Tensor, scale: Tensor, middle: Tensor) -> tuple[Tensor, Tensor]:
    """Return grad_output for the weight gradient of a linear layer, and the number to add to each of its rows."""
    grad_output = grad_output.to(scale.dtype)  # scales of bfloat16 operands are float32
    row_bias = grad_output.flatten(0, -2).t().mv(middle.flatten()) if grad_output.dim() > 1 else grad_output * middle
    return grad_output * scale, row_bias


def fold_b(
    product: Product, grad_output: Tensor, scale: Tensor, middle: Tensor, a_shape: torch.Size, b_shape: torch.Size
) -> tuple[Tensor, Tensor]:
    """Return grad_output for the input gradient, and the number to add to each of its rows.

    The rows of the gradient of an image are its pixels.
    """
    grad_output = grad_output.to(scale.dtype)
    if not isinstance(product, ConvolutionProduct):
        return grad_output * scale.flatten(), grad_output.matmul(middle.flatten())
    by_channel = (1, -1, *(1 for _ in b_shape[2:]))
    sums = _sum_channels(grad_output, middle.flatten())
    geometry = zip(a_shape[2:], b_shape[2:], product.stride, product.padding, product.dilation, strict=True)
    for dim, (size, kernel, stride, padding, dilation) in enumerate(geometry, 1):
        sums = _spread(sums, dim, size, kernel, stride, padding, dilation)
    return grad_output * scale.view(by_channel), sums.flatten()


def _sum_channels(x: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of the channels of (images, channels, ...), without a copy in either memory layout."""
    if has_channels_last(x):
        return x.permute(0, 2, 3, 1).matmul(weights)
    return weights.matmul(x.flatten(2)).view(len(x), *x.shape[2:])


def _spread(x: Tensor, dim: int, size: int, kernel: int, stride: int, padding: int, dilation: int) -> Tensor:
    """Add each output position to the input positions of its window, along one dimension."""
    span = (x.shape[dim] - 1) * stride + 1
    length = max(span + dilation * (kernel - 1), padding + size)
    out = x.new_zeros(*x.shape[:dim], length, *x.shape[dim + 1 :])
    for tap in range(kernel):
        window = [slice(None)] * x.dim()
        window[dim] = slice(tap * dilation, tap * dilation + span, stride)
        out[tuple(window)] += x
    return out.narrow(dim, padding, size)


def add_to_rows(product: Product, gradient: Tensor, row_bias: Tensor) -> Tensor:
    """Add a number to each row of a gradient; the rows of the gradient of an image are its pixels."""
    if isinstance(product, ConvolutionProduct):
        return gradient + row_bias.view(len(gradient), 1, *gradient.shape[2:])
    return gradient + row_bias.view(*gradient.shape[:-1], 1)
