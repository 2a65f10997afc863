"""Batches of images: their memory layout, and the windows that a convolution sums over.

Convolutions on the CPU are fastest with the channels last in memory. The native kernels compute the same as the torch
operations here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.kernels import native
from bitcycle.kernels.rounding import Dims, Noise, encode_in_bytes

_CHANNELS_LAST = torch.channels_last


def has_channels_last(x: Tensor) -> bool:
    """Return whether the channels are last in memory, and not also in the order of the dimensions."""
    return x.dim() == 4 and x.is_contiguous(memory_format=_CHANNELS_LAST) and not x.is_contiguous()


def to_channels_last(x: Tensor) -> Tensor:
    """Return (images, channels, rows, columns) with the channels last in memory."""
    if x.is_contiguous(memory_format=_CHANNELS_LAST):
        return x
    run = native.kernel("transpose", (x, native.BYTES + native.WORDS))
    if run is None:
        return x.contiguous(memory_format=_CHANNELS_LAST)
    out = torch.empty_like(x, memory_format=_CHANNELS_LAST)
    images, channels, rows, columns = x.shape
    threads = native.threads(x.numel())
    run(x.data_ptr(), images, channels, rows * columns, x.element_size(), out.data_ptr(), threads)
    return out


def to_contiguous(x: Tensor) -> Tensor:
    """Return (images, channels, rows, columns) in the order of the dimensions in memory."""
    pixels = x.permute(0, 2, 3, 1)
    run = native.kernel("transpose", (pixels, native.BYTES + native.WORDS)) if x.dim() == 4 else None
    if x.is_contiguous() or run is None:
        return x.contiguous()
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    images, channels, rows, columns = x.shape
    threads = native.threads(x.numel())
    run(x.data_ptr(), images, rows * columns, channels, x.element_size(), out.data_ptr(), threads)
    return out


class ImageCodes(NamedTuple):
    """Images on their grids."""

    codes: Tensor
    """The codes as they are, in unsigned bytes that are stored as signed ones, with the channels last in memory."""
    scale: Tensor
    zero: Tensor
    pixel_sums: Tensor
    """The sum of the codes of each pixel (images, rows, columns), in 32-bit integers."""


def encode_images(
    x: Tensor,
    bits: int,
    dims: Dims = None,
    noise: Noise = None,
    *,
    symmetric: bool = False,
    factors: Tensor | None = None,
) -> ImageCodes | None:
    """Round images to codes of one byte with the channels last in memory; None if some have no grid.

    Only for the CPU, for widths of 1 to 8 bits, and for images that are not empty.

    Args:
        x: The images.
        bits: The width.
        dims: The dimensions that share a grid: all of them, all but the images, or all but the channels.
        noise: For stochastic rounding.
        symmetric: Whether the grid is symmetric.
        factors: What images are first multiplied by: a number for each image, or for each channel.
    """
    x = x.float() if x.dtype is torch.float16 else x
    if not isinstance(noise, Tensor) and native.supports(x, native.FLOATS):
        rounded = native.encode(x, bits, dims, noise, 0, False, True, symmetric, channels_last=True, factors=factors)
        if rounded is not None:
            if rounded.without_grid:
                return None
            return ImageCodes(rounded.codes, rounded.scale, rounded.zero, rounded.pixel_sums)
    encoded = encode_in_bytes(x, bits, dims, noise, offset=0, symmetric=symmetric, factors=factors)
    if encoded is None:
        return None
    codes = to_channels_last(encoded.codes)
    return ImageCodes(codes, encoded.scale, encoded.zero, codes.view(torch.uint8).sum(1, dtype=torch.int32))


@dataclass(frozen=True)
class Windows:
    """The windows of a 2-D convolution over images of a size."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @cached_property
    def output(self) -> tuple[int, int]:
        """The number of windows, down and across."""
        geometry = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        down, across = (1 + (size + 2 * p - d * (k - 1) - 1) // s for size, k, s, p, d in geometry)
        return down, across

    def unfold(self, codes: Tensor) -> Tensor:
        """Return a matrix of codes with a row for each window: (kernel rows, kernel columns, channels). Padding is 0.

        Args:
            codes: Bytes (images, channels, rows, columns) with the channels last in memory.
        """
        images, channels = codes.shape[:2]
        pixels = codes.permute(0, 2, 3, 1)
        (down, across), (k1, k2) = self.output, self.kernel
        run = native.kernel("unfold", (pixels, native.BYTES))
        if run is None:
            (p1, p2), (s1, s2), (d1, d2) = self.padding, self.stride, self.dilation
            padded = F.pad(pixels, (0, 0, p2, p2, p1, p1))
            parts = [
                padded[:, i * d1 : i * d1 + down * s1 : s1, j * d2 : j * d2 + across * s2 : s2]
                for i in range(k1)
                for j in range(k2)
            ]
            parts = [part[:, :down, :across] for part in parts]
            return torch.stack(parts, 3).view(images * down * across, k1 * k2 * channels)
        out = codes.new_empty(images * down * across, k1 * k2 * channels)
        run(codes.data_ptr(), out.data_ptr(), images, *self._geometry(channels), native.threads(out.numel()))
        return out

    def sums(self, map: Tensor) -> Tensor:
        """Return the sum of a map over each window, in 32-bit integers. Padding is 0.

        Args:
            map: 32-bit integers (images, rows, columns).
        """
        images = len(map)
        run = native.kernel("sum_windows", (map, native.INT32))
        if run is None:
            kernel = torch.ones(1, 1, *self.kernel, dtype=torch.float64, device=map.device)
            geometry = (self.stride, self.padding, self.dilation)
            return F.conv2d(map.double().unsqueeze(1), kernel, None, *geometry).to(torch.int32).flatten()
        down, across = self.output
        out = map.new_empty(images * down * across)
        run(map.data_ptr(), out.data_ptr(), images, *self._geometry(1), native.threads(out.numel()))
        return out

    def _geometry(self, channels: int) -> tuple[int, ...]:
        return *self.size, channels, *self._numbers

    @cached_property
    def _numbers(self) -> tuple[int, ...]:
        return *self.output, *self.kernel, *self.stride, *self.padding, *self.dilation
