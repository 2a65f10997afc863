"""The three products of a 2-D convolution in integers.

Operand ``a`` (images, channels, rows, columns) has one grid or one per image, operand ``b`` (out, in, ...) one grid or
one per output channel. The channels of all codes are last in memory.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from bitcycle.arithmetic.backends.integer_cpu import linear
from bitcycle.arithmetic.execution import Execution, ExecutionPlan, Reason
from bitcycle.arithmetic.operands import Codes, Operand, OperandSpec, put_on_grid
from bitcycle.arithmetic.products import ConvolutionProduct
from bitcycle.arithmetic.recipe import GradOutput
from bitcycle.grids import GridFamily
from bitcycle.kernels import native
from bitcycle.kernels.convolutions import MAX_TERMS, Windows, convolve, correlate, has_channels_last
from bitcycle.kernels.rounding import Dims, Noise, encode_in_bytes, origin_of

MIN_MACS = 500_000
"""Products with fewer multiply-accumulates are not faster in integers."""


def plan(
    product: ConvolutionProduct,
    a: torch.Size,
    b: torch.Size,
    a_dims: Dims,
    b_dims: Dims,
    grad_output: GradOutput,
    how: Execution,
) -> ExecutionPlan:
    """Return which of the three products can be computed in integers."""
    if len(a) != 4 or product.transposed or product.groups > 1:
        return ExecutionPlan.simulated(Reason.GEOMETRY)
    if b[1:].numel() > MAX_TERMS or product.has_windows_of_padding(b):
        return ExecutionPlan.simulated(Reason.GEOMETRY)
    if not (a_dims in (None, (1, 2, 3)) and b_dims in (None, (1, 2, 3))):
        return ExecutionPlan.simulated(Reason.GRANULARITY)
    if how is Execution.FASTEST and not native.multiplies():
        return ExecutionPlan.simulated(Reason.KIND)
    windows = _windows(product, a, b)
    positions = windows.output[0] * windows.output[1]
    if positions > MAX_TERMS:
        return ExecutionPlan.simulated(Reason.GEOMETRY)
    if how is Execution.FASTEST and a[0] * positions * b.numel() < MIN_MACS:
        return ExecutionPlan.simulated(Reason.SMALL)
    twice = grad_output == "row and column"
    input_gradient = None if b_dims is None or twice else Reason.GRANULARITY
    weight_gradient = None if a_dims is None or twice else Reason.GRANULARITY
    if b.numel() // b[1] > MAX_TERMS:  # the input gradient sums over the output channels
        input_gradient = Reason.GEOMETRY
    return ExecutionPlan(None, input_gradient, weight_gradient)


def encode(
    x: Tensor, bits: int, spec: OperandSpec, grid: GridFamily, noise: Noise = None, factors: Tensor | None = None
) -> Operand:
    """Return the codes of images with the channels last, or their values if some have no grid."""
    images = encode_in_bytes(
        x, bits, spec.dims, noise, 0, symmetric=grid.symmetric, factors=factors, channels_last=True
    )
    if images is None:
        return put_on_grid(x, bits, spec, grid, noise=noise, factors=factors)
    codes, scale, zero, sums = images
    return Codes(
        codes, scale, zero, bits, origin_of(bits, grid.symmetric), 0, x.dtype, None, sums, has_channels_last(x)
    )


def encode_weight(x: Tensor, bits: int, spec: OperandSpec, grid: GridFamily) -> Operand:
    """Return the codes of a kernel, or its values if some have no grid."""
    operand = linear.encode(x, bits, spec, grid)
    if isinstance(operand, Codes):
        operand.channels_last = has_channels_last(x)
    return operand


def output(product: ConvolutionProduct, a: Codes, b: Codes, bias: Tensor | None) -> Tensor:
    """Return the convolution of ``a`` with the kernel ``b``."""
    bias = None if bias is None else bias.detach().float().contiguous()
    windows = _windows(product, a.stored.shape, b.stored.shape)
    return convolve(
        windows, _pixels(a), _pixel_sums(a), b.stored, a.grid(), b.grid(), bias,
        channels_last=a.channels_last or b.channels_last, dtype=a.dtype,  # as torch decides
    )  # fmt: skip


def input_gradient(
    product: ConvolutionProduct, e: Codes, b: Codes, a_shape: torch.Size, added: Tensor | None = None
) -> Tensor:
    """Return the gradient of the input, plus a number for each pixel if given.

    It is a convolution of ``e`` with the kernel turned around. The rows and columns of ``e`` lie apart by the stride.
    """
    kernel = b.stored.flip(2, 3).transpose(0, 1)
    windows = _turned(product, e.stored.shape, b.stored.shape, a_shape)
    return convolve(
        windows, _pixels(e), _pixel_sums(e), kernel, e.grid(), b.grid(), None, added,
        channels_last=e.channels_last, dtype=e.dtype,
    )  # fmt: skip


def weight_gradient(
    product: ConvolutionProduct, e: Codes, a: Codes, b_shape: torch.Size, added: Tensor | None = None
) -> Tensor:
    """Return the gradient of the kernel, plus a tensor if given: what the middles of the grids of ``a`` add.

    ``e`` has any grids that the positions of a channel share, and ``a`` has one grid.
    """
    unit, scale, middle = a, None, None
    if added is None:
        unit, scale, middle = a.split()
        error, middle = e.values().to(middle.dtype), middle.expand(len(a.stored))
        added = product.absorb_a(error, scale, middle, a.stored.shape, b_shape).added
    assert isinstance(unit.middle, int)
    grids, half = e.stored.shape[:2], 1 << e.bits - 1
    middles = e.zero + e.scale * (half - e.origin)
    e_scale, e_middle = (x.reshape(x.shape[:2] or (1, 1)).expand(grids).contiguous() for x in (e.scale, middles))
    windows = _windows(product, a.stored.shape, b_shape)
    gradient = correlate(windows, _pixels(e), _pixels(unit), e_scale, e_middle, half, unit.middle)
    return gradient + added if scale is None else gradient * scale + added


def _pixels(operand: Codes) -> Tensor:
    return operand.stored.permute(0, 2, 3, 1)


def _pixel_sums(operand: Codes) -> Tensor:
    assert operand.pixel_sums is not None
    return operand.pixel_sums


@lru_cache(maxsize=256)
def _windows(product: ConvolutionProduct, a_shape: torch.Size, b_shape: torch.Size) -> Windows:
    """Return the windows of a convolution of images of shape ``a_shape`` with a kernel."""
    pairs = zip(a_shape[2:], b_shape[2:], product.stride, product.padding, product.dilation, strict=True)
    down, across = (1 + (size + 2 * p - d * (k - 1) - 1) // s for size, k, s, p, d in pairs)
    geometry = (tuple(product.stride), tuple(product.padding), tuple(product.dilation))
    return Windows(tuple(a_shape[2:]), tuple(b_shape[2:]), *geometry, (down, across))  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def _turned(product: ConvolutionProduct, e_shape: torch.Size, b_shape: torch.Size, a_shape: torch.Size) -> Windows:
    """Return the windows of the convolution that computes the input gradient from one of shape ``e_shape``."""
    (k1, k2), (d1, d2), (p1, p2) = b_shape[2:], product.dilation, product.padding
    padding = (d1 * (k1 - 1) - p1, d2 * (k2 - 1) - p2)
    output, apart = tuple(a_shape[2:]), tuple(product.stride)
    return Windows(tuple(e_shape[2:]), (k1, k2), (1, 1), padding, (d1, d2), output, apart)  # type: ignore[arg-type]
