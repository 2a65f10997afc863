"""The three products of a 2-D convolution in integers.

Operand ``a`` (images, channels, rows, columns) has one grid, operand ``b`` (out, in, ...) one grid or one per output
channel. The channels of all codes are last in memory. Zero padding is no code of an affine grid: sums run over the
positions inside the image alone, and the corrections for the zero points count these positions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.arithmetic.execution import Execution, Means, Reason, why_simulated
from bitcycle.arithmetic.integer_linear import MOST_TERMS, multiply_codes
from bitcycle.arithmetic.operands import Operand, OperandSpec
from bitcycle.arithmetic.products import ConvolutionProduct
from bitcycle.kernels.images import Windows, to_channels_last
from bitcycle.kernels.integer_sums import Grid, column_sums, combine, row_sums

FEWEST_CHANNELS = 16
"""Weight gradients of fewer input channels are not faster in integers."""
UNFOLDED = 2**20
"""Bytes of unfolded codes that are multiplied at once; they should stay in the cache."""
SMALLEST_FASTER = 25_000_000
"""Products with fewer multiply-accumulates are not faster in integers."""


def means(
    product: ConvolutionProduct,
    a: Tensor,
    b: Tensor,
    a_spec: OperandSpec,
    b_spec: OperandSpec,
    fold: bool,
    how: Execution,
) -> Means:
    """Return which of the three products can be computed in integers."""
    reason = why_simulated(how, a, b)
    if reason is None and (a_spec.already_rounded or b_spec.already_rounded):
        reason = Reason.ROUNDED_BEFORE
    if reason is None and (a.device.type != "cpu" or a.dim() != 4 or product.transposed or product.groups > 1):
        reason = Reason.GEOMETRY
    if reason is None and (b[0].numel() > MOST_TERMS or product.has_windows_of_padding(b.shape)):
        reason = Reason.GEOMETRY
    if reason is not None:
        return Means.simulated(reason)
    if a_spec.dims is not None or b_spec.dims not in (None, (1, 2, 3)):
        return Means.simulated(Reason.GRANULARITY)
    windows = _windows(product, a.shape, b.shape)
    positions = windows.output[0] * windows.output[1]
    if positions > MOST_TERMS:
        return Means.simulated(Reason.GEOMETRY)
    if how is Execution.FASTEST and len(a) * positions * b.numel() < SMALLEST_FASTER:
        return Means.simulated(Reason.SMALL)
    input_gradient = Reason.GRANULARITY if b_spec.dims is not None and not fold else None
    few = how is Execution.FASTEST and b.shape[1] < FEWEST_CHANNELS
    return Means(None, input_gradient, Reason.SMALL if few else None)


def output(product: ConvolutionProduct, a: Operand, b: Operand, bias: Tensor | None) -> Tensor:
    """Return the convolution of ``a`` with the kernel ``b``."""
    bias = None if bias is None else bias.detach().contiguous()
    return _convolve(a, b.codes, b.grid(), _windows(product, a.codes.shape, b.codes.shape), (1, 1), bias, None)


def input_gradient(
    product: ConvolutionProduct, e: Operand, b: Operand, a_shape: torch.Size, row_bias: Tensor | None = None
) -> Tensor:
    """Return the gradient of the input: a convolution of ``e`` with the kernel turned around.

    The rows and columns of ``e`` lie apart by the stride, with zeros between them.
    """
    kernel = b.codes.flip(2, 3).transpose(0, 1)
    spans = [d * (k - 1) for d, k in zip(product.dilation, kernel.shape[2:], strict=True)]
    (p1, p2), (span1, span2), (s1, s2) = product.padding, spans, product.stride
    size = (a_shape[2] + 2 * p1 - span1, a_shape[3] + 2 * p2 - span2)
    if product.stride != (1, 1):
        images, channels, down, across = e.codes.shape
        apart = e.codes.new_zeros(images, *size, channels)
        apart[:, : down * s1 : s1, : across * s2 : s2] = e.codes.permute(0, 2, 3, 1)
        e = replace(e, codes=apart.permute(0, 3, 1, 2), known_values=None)
    dilation = (product.dilation[0], product.dilation[1])
    windows = Windows(size, (kernel.shape[2], kernel.shape[3]), (1, 1), (span1 - p1, span2 - p2), dilation)
    return _convolve(e, kernel, b.grid(), windows, (s1, s2), None, row_bias)


def weight_gradient(
    product: ConvolutionProduct, e: Operand, a: Operand, b_shape: torch.Size, row_bias: Tensor | None = None
) -> Tensor:
    """Return the gradient of the kernel: for each of its elements a sum over all windows."""
    assert row_bias is None  # only scales of single images or rows would be folded
    e_codes, e_grid = _signed(e)
    a_codes, a_grid = _signed(a)
    windows = _windows(product, a.codes.shape, b_shape)
    out_channels, in_channels = b_shape[:2]
    images, positions = len(a_codes), windows.output[0] * windows.output[1]
    e_rows = e_codes.permute(0, 2, 3, 1).reshape(images * positions, out_channels)
    at_once = max(UNFOLDED // (positions * b_shape[1:].numel()), 1)  # images; one sum has at most MOST_TERMS terms
    sums = torch.zeros(out_channels, b_shape[1:].numel(), dtype=torch.float64)
    for first in range(0, images, at_once):
        rows = windows.unfold(a_codes[first : first + at_once])
        sums += multiply_codes(e_rows[first * positions : (first + at_once) * positions].t(), rows)
    # Sums over the positions inside the image, for each element of the kernel.
    e_inside, a_inside, counts = _inside(windows, (1, 1))
    e_sums = e_inside @ column_sums(e_rows.view(images, -1)).view(positions, out_channels).double()
    a_pixels = a_codes.permute(0, 2, 3, 1).reshape(images, -1)
    a_sums = a_inside @ column_sums(a_pixels).view(-1, in_channels).double()
    s_e, s_a = e_grid.scale.double(), a_grid.scale.double()
    z_e, z_a = e_grid.stored_zero().double(), a_grid.stored_zero().double()
    corrections = (s_e * z_a * e_sums.t()).unsqueeze(2) + (z_e * s_a * a_sums + z_e * z_a * images * counts)
    taps = (sums.view(out_channels, -1, in_channels) * (s_e * s_a) + corrections).float()
    return taps.view(out_channels, *b_shape[2:], in_channels).permute(0, 3, 1, 2).contiguous()


def bias_gradient(product: ConvolutionProduct, e: Operand) -> Tensor:
    """Return the sum of ``e`` over images and positions."""
    codes, grid = _signed(e)
    rows = codes.permute(0, 2, 3, 1).reshape(-1, codes.shape[1])
    return column_sums(rows) * grid.scale + len(rows) * grid.stored_zero()


def _convolve(
    a: Operand,
    kernel: Tensor,
    kernel_grid: Grid,
    windows: Windows,
    every: tuple[int, int],
    bias: Tensor | None,
    row_bias: Tensor | None,
) -> Tensor:
    """Return a convolution of operands on their grids, by oneDNN's convolution of unsigned with signed bytes.

    Only the pixels of ``a`` at multiples of ``every`` are inside the image; the others are zeros between them.
    """
    images, channels = a.codes.shape[:2]
    codes = to_channels_last(a.codes).view(torch.uint8)
    out_channels, (down, across) = len(kernel), windows.output
    ones, zeros = _ones_and_zeros(out_channels)
    geometry = (list(windows.stride), list(windows.padding), list(windows.dilation), 1)
    packed = torch.ops.onednn.qconv_prepack(kernel.contiguous(), ones, 1.0, 0, *geometry, list(codes.shape))
    sums = torch.ops.onednn.qconv_pointwise(
        codes, 1.0, 0, packed, ones, zeros, None, *geometry, 1.0, 0, torch.float32, "none", [], ""
    )
    pixel_sums = row_sums(codes.permute(0, 2, 3, 1).reshape(-1, channels))
    by_row = windows.sums(pixel_sums.view(images, *windows.size))
    kinds, inside = _kinds(windows, every)
    by_column = (inside @ kernel.sum(1, dtype=torch.float32).flatten(1).t()).to(torch.int32)
    terms = (inside.sum(1) * channels).to(torch.int32)
    rows = sums.permute(0, 2, 3, 1).reshape(-1, out_channels)
    pixels = down * across
    out = combine(rows, a.grid(), kernel_grid, by_row, by_column, terms, bias, row_bias, kinds, pixels)
    return out.view(images, out_channels, down, across)


@lru_cache(maxsize=64)
def _ones_and_zeros(count: int) -> tuple[Tensor, Tensor]:
    return torch.ones(count), torch.zeros(count, dtype=torch.int32)


@lru_cache(maxsize=256)
def _inside(windows: Windows, every: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return which output positions and which pixels each element of the kernel meets inside the image, as 0 and 1.

    The shapes are (elements, positions) and (elements, pixels). The third result counts the positions of each element.
    """
    (rows, columns), (s1, s2) = windows.size, every
    numbers = torch.arange(1, rows * columns + 1, dtype=torch.float64).view(1, 1, rows, columns)
    pixels = torch.zeros_like(numbers)
    pixels[..., ::s1, ::s2] = numbers[..., ::s1, ::s2]
    patches = F.unfold(pixels, windows.kernel, windows.dilation, windows.padding, windows.stride)[0]
    met = torch.zeros(len(patches), pixels.numel() + 1, dtype=torch.float64)
    met.scatter_(1, patches.long(), 1.0)
    inside = (patches > 0).double()
    return inside, met[:, 1:].contiguous(), inside.sum(1, keepdim=True)


@lru_cache(maxsize=256)
def _kinds(windows: Windows, every: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return the kind of each output position, and which elements of the kernel are inside the image for each kind."""
    inside, kinds = _inside(windows, every)[0].t().unique(dim=0, return_inverse=True)
    return kinds.to(torch.int32), inside.float()


def _signed(operand: Operand) -> tuple[Tensor, Grid]:
    """Return the codes as signed bytes. Unsigned codes of 8 bits are moved by 128; smaller ones are the same."""
    codes, grid = to_channels_last(operand.codes), operand.grid()
    if operand.offset == 0 and operand.bits == 8:
        return codes.bitwise_xor(-128), grid._replace(offset=128)
    return codes, grid


def _windows(product: ConvolutionProduct, a_shape: torch.Size, b_shape: torch.Size) -> Windows:
    geometry = (tuple(product.stride), tuple(product.padding), tuple(product.dilation))
    return Windows(tuple(a_shape[2:]), tuple(b_shape[2:]), *geometry)  # type: ignore[arg-type]
