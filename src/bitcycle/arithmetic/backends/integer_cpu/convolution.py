"""The three products of a 2-D convolution in integers.

Operand ``a`` (images, channels, rows, columns) has one grid or one per image, operand ``b`` (out, in, ...) one grid or
one per output channel. The channels of all codes are last in memory. Zero padding is no code of an affine grid:
sums run over the positions inside the image alone, and the corrections for the zero points count these positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from bitcycle.arithmetic.backends.integer_cpu import linear
from bitcycle.arithmetic.execution import (
    Execution,
    ExecutionPlan,
    Reason,
    convolutions_are_right,
    convolve_bytes,
)
from bitcycle.arithmetic.operands import Codes, Operand, OperandSpec, put_on_grid
from bitcycle.arithmetic.products import ConvolutionProduct
from bitcycle.arithmetic.recipe import GradOutput
from bitcycle.grids import GridFamily
from bitcycle.kernels.images import Windows, encode_images, has_channels_last
from bitcycle.kernels.integer_sums import Grid, column_sums, combine, multiply_codes
from bitcycle.kernels.rounding import BYTE_BITS, Dims, Noise, origin_of

MAX_TERMS = (2**31 - 1) // (255 * 128)
"""A sum of this many products of an unsigned and a signed byte stays within 32 bits."""
MAX_CODES = (2**31 - 1) // 255
"""A sum of this many unsigned bytes stays within 32 bits."""
MIN_CHANNELS = 16
"""Weight gradients of fewer input channels are not faster in integers."""
UNFOLDED = 2**21
"""Bytes of unfolded codes that are multiplied at once."""
VECTOR = 64
"""Bytes of a vector of AVX-512."""
MIN_MACS = 25_000_000
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
    windows = _windows(product, a, b)
    positions = windows.output[0] * windows.output[1]
    if positions > MAX_TERMS or a[0] > MAX_CODES or is_miscomputed(windows, b[1]):
        return ExecutionPlan.simulated(Reason.GEOMETRY)
    if how is Execution.FASTEST and a[0] * positions * b.numel() < MIN_MACS:
        return ExecutionPlan.simulated(Reason.SMALL)
    twice = grad_output == "row and column"
    input_gradient = None if b_dims is None or twice else Reason.GRANULARITY
    weight_gradient = None if (a_dims is None and grad_output != "row") or twice else Reason.GRANULARITY
    if b.numel() // b[1] > MAX_TERMS:  # the input gradient sums over the output channels
        input_gradient = Reason.GEOMETRY
    if how is Execution.FASTEST and b[1] < MIN_CHANNELS:
        weight_gradient = Reason.SMALL
    return ExecutionPlan(None, input_gradient, weight_gradient)


def encode(
    x: Tensor, bits: int, spec: OperandSpec, grid: GridFamily, noise: Noise = None, factors: Tensor | None = None
) -> Operand:
    """Return the codes of images with the channels last, or their values if some have no grid."""
    images = encode_images(x, bits, spec.dims, noise, symmetric=grid.symmetric, factors=factors)
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


def is_miscomputed(windows: Windows, channels: int) -> bool:
    """Return whether oneDNN's convolution of bytes can be wrong for windows over images of so many channels.

    With AVX-512, oneDNN 3.12 rearranges some convolutions whose output has one column and whose stride is more than 1
    across, sums over wrong pixels or weights, and can write beyond its memory: (1) those of one channel; (2) those
    without padding whose stride is a multiple of the kernel's width, which it turns into kernels of width 1 over more
    channels, if these exceed a vector and the channels themselves do not fill one.
    """
    kernel, stride, padding = windows.kernel[1], windows.stride[1], windows.padding[1]
    if windows.output[1] != 1 or stride == 1:
        return False
    turned = padding == 0 and stride % kernel == 0 and channels < VECTOR < channels * kernel
    return channels == 1 or turned


def output(product: ConvolutionProduct, a: Codes, b: Codes, bias: Tensor | None) -> Tensor:
    """Return the convolution of ``a`` with the kernel ``b``."""
    bias = None if bias is None else bias.detach().float().contiguous()
    taps = _taps(_windows(product, a.stored.shape, b.stored.shape), (1, 1))
    channels_last = a.channels_last or b.channels_last  # as torch decides
    return _convolve(a, a.stored, a.pixel_sums, b.stored, b.grid(), taps, bias, None, channels_last).to(a.dtype)


def input_gradient(
    product: ConvolutionProduct, e: Codes, b: Codes, a_shape: torch.Size, added: Tensor | None = None
) -> Tensor:
    """Return the gradient of the input, plus a number for each pixel if given.

    It is a convolution of ``e`` with the kernel turned around. The rows and columns of ``e`` lie apart by the stride,
    with zeros between them.
    """
    kernel = b.stored.flip(2, 3).transpose(0, 1)
    spans = [d * (k - 1) for d, k in zip(product.dilation, kernel.shape[2:], strict=True)]
    (p1, p2), (span1, span2), (s1, s2) = product.padding, spans, product.stride
    size = (a_shape[2] + 2 * p1 - span1, a_shape[3] + 2 * p2 - span2)
    codes, pixel_sums = e.stored, e.pixel_sums
    if product.stride != (1, 1):
        assert pixel_sums is not None
        codes = _apart(codes.permute(0, 2, 3, 1), size, product.stride).permute(0, 3, 1, 2)
        pixel_sums = _apart(pixel_sums, size, product.stride)
    dilation = (product.dilation[0], product.dilation[1])
    windows = Windows(size, (kernel.shape[2], kernel.shape[3]), (1, 1), (span1 - p1, span2 - p2), dilation)
    row_bias = None if added is None else added.flatten()
    taps = _taps(windows, (s1, s2))
    return _convolve(e, codes, pixel_sums, kernel, b.grid(), taps, None, row_bias, e.channels_last)


def _apart(pixels: Tensor, size: tuple[int, int], stride: tuple[int, ...]) -> Tensor:
    """Return (images, rows, columns, ...) of a larger size, with zeros between the rows and columns."""
    down, across = pixels.shape[1:3]
    apart = pixels.new_zeros(len(pixels), *size, *pixels.shape[3:])
    apart[:, : down * stride[0] : stride[0], : across * stride[1] : stride[1]] = pixels
    return apart


def weight_gradient(
    product: ConvolutionProduct, e: Codes, a: Codes, b_shape: torch.Size, added: Tensor | None = None
) -> Tensor:
    """Return the gradient of the kernel: for each of its elements a sum over all windows. Add a tensor if given.

    ``e`` has one grid or one per channel, and ``a`` has one grid.
    """
    windows = _windows(product, a.stored.shape, b_shape)
    taps = _taps(windows, (1, 1))
    (out_channels, in_channels), elements = b_shape[:2], b_shape[1:].numel()
    images, positions = len(a.stored), windows.output[0] * windows.output[1]
    (e_pixels, s_e, z_e), (a_pixels, s_a, z_a) = _unsigned(e), _signed(a)
    e_rows = e_pixels.view(images * positions, out_channels)
    at_once = max(min(UNFOLDED // elements, MAX_TERMS) // positions, 1)  # images
    sums = e_pixels.new_zeros(out_channels, elements, dtype=torch.float64)
    for first in range(0, images, at_once):
        rows = windows.unfold(a_pixels[first : first + at_once].permute(0, 3, 1, 2))
        sums += multiply_codes(e_rows[first * positions : (first + at_once) * positions].t(), rows)
    # Sums over the positions inside the image, for each element of the kernel.
    e_sums = _sum_met(taps.meets_output, _pixel_totals(e_pixels).double())
    a_sums = _sum_met(taps.meets_input, _pixel_totals(a_pixels).double())
    by_tap = sums.view(out_channels, -1, in_channels).mul_(s_e * s_a)
    by_tap += (e_sums.t().unsqueeze(2) * s_e).mul_(z_a)
    by_tap += (a_sums * s_a).add_(taps.counts, alpha=float(z_a) * images) * z_e
    gradient = by_tap.permute(0, 2, 1).to(torch.float32, memory_format=torch.contiguous_format).view(b_shape)
    return gradient if added is None else gradient + added


def _convolve(
    a: Codes,
    codes: Tensor,
    pixel_sums: Tensor | None,
    kernel: Tensor,
    kernel_grid: Grid,
    taps: _Taps,
    bias: Tensor | None,
    row_bias: Tensor | None,
    channels_last: bool,
) -> Tensor:
    """Return a convolution of operands on their grids.

    The codes and the sums of pixels may have zeros between those of the operand.
    """
    assert pixel_sums is not None
    windows = taps.windows
    (images, channels), out_channels, (down, across) = codes.shape[:2], len(kernel), windows.output
    rows = _sums_of_windows(codes, kernel, windows)
    by_column = (taps.inside @ kernel.sum(1, dtype=torch.float32).flatten(1).t()).to(torch.int32)
    by_row, terms, pixels = (
        windows.sums(pixel_sums),
        taps.terms(channels),
        0 if channels_last else down * across,
    )
    out = combine(rows, a.grid(), kernel_grid, by_row, by_column, terms, bias, row_bias, taps.kinds, pixels)
    if channels_last:
        return out.view(images, down, across, out_channels).permute(0, 3, 1, 2)
    return out.view(images, out_channels, down, across)


def _sums_of_windows(codes: Tensor, kernel: Tensor, windows: Windows) -> Tensor:
    """Return the sums of products of codes and kernel over each window (windows, output channels).

    By oneDNN's convolution of unsigned with signed bytes, or by matrix products of unfolded codes where it saturates.
    """
    codes = codes.view(torch.uint8)
    if convolutions_are_right():
        sums = convolve_bytes(codes, kernel, windows.stride, windows.padding, windows.dilation)
        return sums.permute(0, 2, 3, 1).view(-1, len(kernel))
    columns = kernel.permute(0, 2, 3, 1).reshape(len(kernel), -1).t()
    at_once = max(UNFOLDED // (windows.output[0] * windows.output[1] * len(columns)), 1)  # images
    return torch.cat([multiply_codes(windows.unfold(part), columns) for part in codes.split(at_once)])


Met = tuple[Tensor, Tensor]
"""Which pixels the elements of a kernel meet, as 0 and 1: its rows (kernel rows, image rows), and its columns."""


@dataclass(frozen=True)
class _Taps:
    """Where the elements of a kernel meet the inside of an image.

    An element meets a pixel if its row meets that of the pixel, and so do the columns. What is kept for a geometry is
    therefore small, apart from a number for each output position.

    Args:
        windows: The windows of the convolution.
        every: Only the pixels at multiples of these are inside the image; the others are zeros between them.
    """

    windows: Windows
    every: tuple[int, int]

    def _pixels(self, side: int) -> Tensor:
        """The row (0) or column (1) that each one of the kernel meets at each one of the output; -1 outside."""
        w = self.windows
        taps, positions = (torch.arange(n, device="cpu") for n in (w.kernel[side], w.output[side]))
        pixels = positions * w.stride[side] - w.padding[side] + taps.unsqueeze(1) * w.dilation[side]
        return pixels.where((pixels >= 0) & (pixels < w.size[side]) & (pixels % self.every[side] == 0), -1)

    @cached_property
    def meets_output(self) -> Met:
        """At which output positions each element meets the image, in double precision."""
        rows, columns = ((self._pixels(side) >= 0).double() for side in (0, 1))
        return rows, columns

    @cached_property
    def meets_input(self) -> Met:
        """Which pixels each element meets at some position, in double precision."""
        rows, columns = (
            (self._pixels(side).unsqueeze(2) == torch.arange(size, device="cpu")).any(1).double()
            for side, size in enumerate(self.windows.size)
        )
        return rows, columns

    @cached_property
    def counts(self) -> Tensor:
        """The number of positions at which each element meets the image (elements, 1)."""
        rows, columns = self.meets_output
        return torch.kron(rows.sum(1, keepdim=True), columns.sum(1, keepdim=True))

    @cached_property
    def _kinds(self) -> tuple[Tensor, Tensor]:
        rows, columns = (met.t().unique(dim=0, return_inverse=True) for met in self.meets_output)
        kinds = rows[1].unsqueeze(1) * len(columns[0]) + columns[1]
        return kinds.flatten().to(torch.int32), torch.kron(rows[0], columns[0]).float()

    @property
    def kinds(self) -> Tensor:
        """The kind of each output position: positions of one kind meet the image with the same elements."""
        return self._kinds[0]

    @property
    def inside(self) -> Tensor:
        """Which elements meet the image at positions of each kind (kinds, elements)."""
        return self._kinds[1]

    @cached_property
    def _elements(self) -> Tensor:
        return self.inside.sum(1).to(torch.int32)

    def terms(self, channels: int) -> Tensor:
        """Return the number of terms of a sum, for each kind of position."""
        return self._elements * channels


@lru_cache(maxsize=128)
def _taps(windows: Windows, every: tuple[int, int]) -> _Taps:
    return _Taps(windows, every)


def _sum_met(met: Met, pixels: Tensor) -> Tensor:
    """Return sums of (pixels, channels) over the pixels that each element of a kernel meets (elements, channels)."""
    rows, columns = met
    by_row = rows @ pixels.view(rows.shape[1], -1)
    return (columns @ by_row.view(len(rows), columns.shape[1], -1)).flatten(0, 1)


def _unsigned(operand: Codes) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes (images, rows, columns, channels) as unsigned bytes, with their scale and zero in double precision.

    Scale and zero have the shape (channels or 1, 1, 1).
    """
    scale, zero = (x.double().view(-1, 1, 1) for x in (operand.scale, operand.zero))
    return operand.stored.permute(0, 2, 3, 1).view(torch.uint8), scale, zero + operand.grid().offset * scale


def _signed(operand: Codes) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes as :func:`_unsigned` does, but in signed bytes."""
    pixels, scale, zero = _unsigned(operand)
    if operand.bits == BYTE_BITS:
        return pixels.bitwise_xor(128).view(torch.int8), scale, zero + 128 * scale
    return pixels.view(torch.int8), scale, zero


def _pixel_totals(pixels: Tensor) -> Tensor:
    """Return the sums of the codes over the images (pixels, channels)."""
    return column_sums(pixels.reshape(len(pixels), -1)).view(-1, pixels.shape[3])


@lru_cache(maxsize=256)
def _windows(product: ConvolutionProduct, a_shape: torch.Size, b_shape: torch.Size) -> Windows:
    geometry = (tuple(product.stride), tuple(product.padding), tuple(product.dilation))
    return Windows(tuple(a_shape[2:]), tuple(b_shape[2:]), *geometry)  # type: ignore[arg-type]
