"""Codes of batches of images, with the channels last in memory, as convolutions of codes read them.

The native kernel computes the same as the torch operations here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bitcycle.kernels import native
from bitcycle.kernels.rounding import Dims, Noise, encode_in_bytes

_CHANNELS_LAST = torch.channels_last


def has_channels_last(x: Tensor) -> bool:
    """Return whether the channels are last in memory, and not also in the order of the dimensions."""
    return x.dim() == 4 and x.is_contiguous(memory_format=_CHANNELS_LAST) and not x.is_contiguous()


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
    codes = encoded.codes.contiguous(memory_format=_CHANNELS_LAST)
    return ImageCodes(codes, encoded.scale, encoded.zero, codes.view(torch.uint8).sum(1, dtype=torch.int32))
