"""Two-dimensional convolutions of codes, and the gradients of their kernels.

Grids and the formula are those of :mod:`bitcycle.kernels.integer_sums`. Zero padding is no code of
an affine grid: sums run over the positions inside the image alone, and the corrections for the zero points count these
positions. The native kernels compute the same as the torch operations here, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import torch
from torch import Tensor

from bitcycle.kernels import native
from bitcycle.kernels.integer_sums import Grid, combine, multiply_codes

MAX_TERMS = (2**31 - 1) // (255 * 128)
"""A sum of this many products of an unsigned and a signed byte stays within 32 bits."""
_GROUP = 32
"""Images whose kernel gradients are added up, before those of several groups are."""
_UNFOLDED = 2**21
"""Bytes of codes whose windows are multiplied at once."""

Pair = tuple[int, int]


def has_channels_last(x: Tensor) -> bool:
    """Return whether images have their channels last in memory, and not also in the order of the dimensions."""
    return x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


@dataclass(frozen=True)
class Windows:
    """The windows of a 2-D convolution over images of a size."""

    size: Pair
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    output: Pair
    """The number of windows, down and across."""
    apart: Pair = (1, 1)
    """The rows and columns of the images lie so far apart, with zeros between them."""

    @cached_property
    def geometry(self) -> tuple[int, ...]:
        """All numbers but the sizes, in the order of the native kernels."""
        return *self.kernel, *self.stride, *self.padding, *self.dilation, *self.apart

    def unfold(self, pixels: Tensor) -> Tensor:
        """Return (images, down, across, kernel elements, ...) of (images, rows, columns, ...). Padding is 0."""
        reach = [
            (output - 1) * s + (k - 1) * d + 1
            for output, s, k, d in zip(self.output, self.stride, self.kernel, self.dilation, strict=True)
        ]
        padded = pixels.new_zeros(len(pixels), *reach, *pixels.shape[3:])
        inside = padded[:, self.padding[0] :: self.apart[0], self.padding[1] :: self.apart[1]]
        inside = inside[:, : pixels.shape[1], : pixels.shape[2]]
        inside.copy_(pixels[:, : inside.shape[1], : inside.shape[2]])
        (s1, s2), (d1, d2), (down, across) = self.stride, self.dilation, self.output
        return torch.stack(
            [
                padded[:, i * d1 :: s1, j * d2 :: s2][:, :down, :across]
                for i in range(self.kernel[0])
                for j in range(self.kernel[1])
            ],
            3,
        )

    def _meets(self, side: int) -> Tensor:
        """Which rows (0) or columns (1) of the kernel meet the image at each of the output (output, kernel)."""
        windows = torch.arange(self.output[side], device="cpu").unsqueeze(1) * self.stride[side] - self.padding[side]
        at = windows + torch.arange(self.kernel[side], device="cpu") * self.dilation[side]
        apart = self.apart[side]
        return (at >= 0) & (at % apart == 0) & (at < apart * self.size[side])

    @cached_property
    def _kinds(self) -> tuple[Tensor, Tensor]:
        rows, columns = (self._meets(side).to(torch.uint8).unique(dim=0, return_inverse=True) for side in (0, 1))
        kinds = rows[1].unsqueeze(1) * len(columns[0]) + columns[1]
        return kinds.flatten().to(torch.int32), torch.kron(rows[0], columns[0])

    @property
    def kinds(self) -> Tensor:
        """The kind of each window: windows of one kind meet the image with the same elements of the kernel."""
        return self._kinds[0]

    @property
    def inside(self) -> Tensor:
        """Which elements of the kernel meet the image, for each kind of window (kinds, elements), as 0 and 1."""
        return self._kinds[1]


def convolve(
    windows: Windows,
    p: Tensor,
    pixel_sums: Tensor,
    q: Tensor,
    p_grid: Grid,
    q_grid: Grid,
    bias: Tensor | None = None,
    row_bias: Tensor | None = None,
    *,
    channels_last: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return the convolution of images with a kernel, of codes on their grids (images, output channels, down, across).

    Args:
        windows: The geometry.
        p: The unsigned codes of the images (images, rows, columns, channels).
        pixel_sums: The sums of the codes of each pixel (images, rows, columns).
        q: The signed codes of the kernel (output channels, channels, rows, columns).
        p_grid: One grid, or one for each image.
        q_grid: One grid, or one for each output channel.
        bias: A number for each output channel, in single precision.
        row_bias: A number for each pixel of the output, in single precision.
        channels_last: Whether the result has the channels last in memory.
        dtype: The type of the result.
    """
    images, (down, across) = len(p), windows.output
    is_native = native.multiplies() and dtype in native.FLOATS
    run = native.kernel("convolve", (p, native.BYTES), (bias, native.FLOAT32), (row_bias, native.FLOAT32))
    if not is_native or run is None:
        rows = torch.cat([_sums(windows, part, q) for part in p.split(_at_once(windows, p))])
        by_row = windows.unfold(pixel_sums).sum(3, dtype=torch.int32).flatten()
        inside = windows.inside.to(p.device, torch.float64)
        by_column = (inside @ q.sum(1, dtype=torch.float64).flatten(1).t()).to(torch.int32)
        terms = inside.sum(1).to(torch.int32) * p.shape[3]
        out = combine(rows, p_grid, q_grid, by_row, by_column, terms, bias, row_bias, windows.kinds.to(p.device))
        out = out.view(images, down, across, len(q)).permute(0, 3, 1, 2).to(dtype)
        return out if channels_last else out.contiguous()
    memory = torch.channels_last if channels_last else torch.contiguous_format
    out = torch.empty((images, len(q), down, across), dtype=dtype, device=p.device, memory_format=memory)
    kinds, inside = windows._kinds
    run(
        p.data_ptr(), *p.shape, down, across, len(q), *windows.geometry, pixel_sums.data_ptr(),
        q.data_ptr(), *q.stride(), kinds.data_ptr(), len(inside), inside.data_ptr(),
        p_grid.scale.data_ptr(), p_grid.zero.data_ptr(), p_grid.scale.numel(), p_grid.offset,
        q_grid.scale.data_ptr(), q_grid.zero.data_ptr(), q_grid.scale.numel(), q_grid.offset,
        0 if bias is None else bias.data_ptr(), 0 if row_bias is None else row_bias.data_ptr(),
        out.data_ptr(), channels_last, dtype is torch.bfloat16, native.threads(out.numel()),
    )  # fmt: skip
    return out


def correlate(
    windows: Windows, e: Tensor, p: Tensor, scale: Tensor, middle: Tensor, e_middle: int, p_middle: int
) -> Tensor:
    """Return the gradient of a kernel (output channels, channels, rows, columns), in single precision.

    The codes of the images are taken as numbers, less ``p_middle``. With the sums ``S`` of their products with
    ``e - e_middle`` over the windows of an image, and their own sums ``r``, the gradient is the sum over the images of
    ``scale S + middle r``.

    Args:
        windows: The geometry.
        e: The unsigned codes of the gradient of the output (images, down, across, output channels).
        p: The unsigned codes of the images (images, rows, columns, channels).
        scale: The scales of ``e``, in single precision (images, output channels).
        middle: The values of the codes ``e_middle`` (images, output channels).
        e_middle: Half of the codes that ``e`` can have.
        p_middle: Half of the codes that ``p`` can have, or 0.
    """
    numbers = ((scale, native.FLOAT32), (middle, native.FLOAT32))
    run = native.kernel("correlate", (p, native.BYTES), (e, native.BYTES), *numbers) if native.multiplies() else None
    if run is not None:
        out = p.new_empty(e.shape[3], p.shape[3], *windows.kernel, dtype=torch.float32)
        run(
            p.data_ptr(), *p.shape, *windows.output, e.shape[3], *windows.geometry, e.data_ptr(), scale.data_ptr(),
            middle.data_ptr(), e_middle, p_middle, out.data_ptr(), native.threads(e.numel() + p.numel()),
        )  # fmt: skip
        return out
    sums = [_sums_of_image(windows, *image, e_middle, p_middle) for image in zip(e, p, scale, middle, strict=True)]
    groups = [reduce(torch.add, sums[first : first + _GROUP]) for first in range(0, len(sums), _GROUP)]
    by_element = reduce(torch.add, groups).view(e.shape[3], *windows.kernel, p.shape[3])
    return by_element.permute(0, 3, 1, 2).contiguous()


def _sums_of_image(
    windows: Windows, e: Tensor, p: Tensor, scale: Tensor, middle: Tensor, e_middle: int, p_middle: int
) -> Tensor:
    """Return the gradient for an image (output channels, elements and channels)."""
    e = (e.view(torch.uint8).flatten(0, 1).to(torch.int16) - e_middle).to(torch.int8)
    p = windows.unfold((p.view(torch.uint8).to(torch.int16) - p_middle).unsqueeze(0)).flatten(3).flatten(0, 2)
    sums = multiply_codes(p.to(torch.int8 if p_middle else torch.uint8).t(), e).t()
    return sums.to(scale.dtype) * scale.unsqueeze(1) + p.sum(0).to(scale.dtype) * middle.unsqueeze(1)


def _sums(windows: Windows, p: Tensor, q: Tensor) -> Tensor:
    """Return the sums of products of the codes in each window (windows, output channels)."""
    rows = windows.unfold(p.view(torch.uint8)).flatten(3).flatten(0, 2)
    return multiply_codes(rows, q.permute(0, 2, 3, 1).reshape(len(q), -1).t())


def _at_once(windows: Windows, p: Tensor) -> int:
    """Return the number of images whose windows are multiplied at once."""
    positions = windows.output[0] * windows.output[1]
    bytes_of_one = positions * windows.kernel[0] * windows.kernel[1] * p.shape[3]
    return max(min(_UNFOLDED // bytes_of_one, MAX_TERMS // positions), 1)
