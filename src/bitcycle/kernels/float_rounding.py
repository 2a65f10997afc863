"""Rounding tensors to floating-point formats with a scale for each block: pure functions without state.

    scale from the largest magnitude of a block        value = round(x / scale) * scale

``round`` gives the nearest number of a format, ties to even: with the exponent ``e`` of its argument, at least that of
the smallest normal number, the numbers of a format with ``m`` bits of mantissa are multiples of ``2^(e - m)``.
Stochastic rounding adds noise in (-1/2, 1/2) of these units. What exceeds the largest number becomes that number.

A block whose values are not all finite has no scale: its values pass through unchanged. The torch operations below are
the reference. On the CPU, in single precision, the native kernels compute the same in one pass.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.kernels import native
from bitcycle.kernels.noise import NoiseKey
from bitcycle.kernels.rounding import NOISE_STEP, Dims, Noise, Width, drawn_noise


class Format(NamedTuple):
    """A floating-point format with subnormal numbers. Inside a compiled graph its parameters can be tensors."""

    mantissa: int | Tensor
    """Bits of the mantissa."""
    smallest: int | Tensor
    """Exponent of the smallest normal number."""
    largest: float | Tensor
    """The largest number."""


E2M1 = Format(1, 0, 6.0)
E2M3 = Format(3, 0, 7.5)
E3M2 = Format(2, -2, 28.0)
E4M3 = Format(3, -6, 448.0)
E5M2 = Format(2, -14, 57344.0)
FORMATS = {"E2M1": E2M1, "E2M3": E2M3, "E3M2": E3M2, "E4M3": E4M3, "E5M2": E5M2}

LARGEST_BFLOAT16 = float(torch.finfo(torch.bfloat16).max)


class Scaling(IntEnum):
    """How the scale of a block follows from its largest magnitude. The values are those of the C file."""

    TO_LARGEST = 0
    """The largest magnitude becomes the largest number: ``scale = max|x| / largest``."""
    POWERS_OF_TWO = 1
    """OCP Microscaling: ``scale = 2^(floor(log2(max|x|)) - floor(log2(largest)))``, from 2^-127 to 2^127."""
    TWO_LEVELS = 2
    """NVFP4: ``scale = E4M3(max|x| / largest / tensor) * tensor`` with ``tensor = max|x of all blocks| / 448 largest``.
    """


class Blocks(NamedTuple):
    """Which values share a scale: consecutive ones along some dimensions.

    Args:
        dims: The dimensions, flattened in this order; ``None`` means all of them.
        size: The number of values in a block. The last block may be shorter. ``None`` means that all values along the
            dimensions are one block.
        groups: The dimension consists of this many equal parts, and no block reaches over two of them.
    """

    dims: Dims = None
    size: int | None = None
    groups: int = 1

    def split(self, x: Tensor) -> Tensor:
        """Return the values as (..., blocks, values of a block), padded with zeros."""
        dims = self._dims(x.dim())
        x = x.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims)) if dims else x.unsqueeze(-1)
        x = x.unflatten(-1, (self.groups, -1)) if self.groups > 1 else x
        size = self.size or x.shape[-1]
        return F.pad(x, (0, -x.shape[-1] % size)).unflatten(-1, (-1, size))

    def join(self, blocks: Tensor, shape: torch.Size) -> Tensor:
        """Undo :meth:`split` of a tensor of a shape."""
        dims = self._dims(len(shape))
        sizes = [shape[d] for d in dims]
        x = blocks.flatten(-2)[..., : math.prod(sizes) // self.groups]
        x = x.flatten(-2) if self.groups > 1 else x
        return x.unflatten(-1, sizes).movedim(tuple(range(-len(dims), 0)), dims) if dims else x.squeeze(-1)

    def _dims(self, count: int) -> tuple[int, ...]:
        return tuple(range(count)) if self.dims is None else tuple(d % count for d in self.dims)


ONE_BLOCK = Blocks()
"""One scale for the whole tensor."""


def round_to_format(
    x: Tensor, format: Format, scaling: Scaling, blocks: Blocks = ONE_BLOCK, noise: Noise = None
) -> Tensor:
    """Round ``x`` to a format, with a scale for each block: to nearest, or stochastically if noise is given.

    >>> round_to_format(torch.tensor([0.1, 2.6, 12.0]), E2M1, Scaling.TO_LARGEST)
    tensor([ 0.,  3., 12.])
    """
    if x.numel() == 0:
        return x
    if not isinstance(noise, Tensor) and native.supports(x) and not isinstance(format.mantissa, Tensor):
        rounded = _round_native(x, format, scaling, blocks, noise)
        if rounded is not None:
            return rounded
    noise = drawn_noise(x, noise)
    values = blocks.split(x.to(torch.float64 if x.dtype is torch.float64 else torch.float32))
    scale = _scale(values, format, scaling)
    units = None if noise is None else blocks.split(noise).to(values.dtype).add_(0.5).mul_(NOISE_STEP)
    rounded = to_format(values / torch.where(scale == 0, 1, scale), format, units) * scale
    return blocks.join(torch.where(scale.isnan(), values, rounded), x.shape).to(x.dtype)


def _round_native(x: Tensor, format: Format, scaling: Scaling, blocks: Blocks, noise: NoiseKey | None) -> Tensor | None:
    if blocks.groups == 1:
        return native.round_float(x, blocks.dims, blocks.size, scaling, format, noise)
    assert blocks.dims is not None
    (dim,) = blocks._dims(x.dim())
    rounded = native.round_float(x.unflatten(dim, (blocks.groups, -1)), (dim + 1,), blocks.size, scaling, format, noise)
    return None if rounded is None else rounded.flatten(dim, dim + 1)


def _scale(blocks: Tensor, format: Format, scaling: Scaling) -> Tensor:
    """Return the scale of each block; NaN for a block that passes through unchanged."""
    largest = blocks.abs().amax(-1, keepdim=True)
    if scaling is Scaling.POWERS_OF_TWO:
        top = exponent_of(torch.as_tensor(format.largest, dtype=blocks.dtype, device=blocks.device))
        scale = power_of_two((exponent_of(largest) - top).clamp(-127, 127), blocks.dtype)
    elif scaling is Scaling.TWO_LEVELS:
        tensor = largest.amax() / (E4M3.largest * format.largest)
        tensor = torch.where(_can_divide(tensor), tensor, math.nan)
        scale = to_format(largest / format.largest / tensor, E4M3) * tensor
    else:
        scale = largest / format.largest
        scale = torch.where(_can_divide(scale), scale, math.nan)
    return torch.where(largest.isfinite(), scale, math.nan)


def _can_divide(scale: Tensor) -> Tensor:
    return scale.isfinite() & (scale >= torch.finfo(scale.dtype).tiny)


def to_format(x: Tensor, format: Format, noise: Tensor | None = None) -> Tensor:
    """Return the nearest numbers of a format to finite values, or random neighbours with noise in (-1/2, 1/2).

    >>> to_format(torch.tensor([0.3, 2.5, 3.5, 100.0]), E2M1)
    tensor([0.5000, 2.0000, 4.0000, 6.0000])
    """
    exponent = exponent_of(x).clamp(min=format.smallest)
    units = x * power_of_two(format.mantissa - exponent, x.dtype)
    units = (units if noise is None else units + noise).round()
    rounded = units * power_of_two(exponent - format.mantissa, x.dtype)
    largest = torch.as_tensor(format.largest, dtype=x.dtype, device=x.device)
    return torch.maximum(torch.minimum(rounded, largest), -largest)


def round_to_bfloat16(x: Tensor, noise: Noise = None) -> Tensor:
    """Round ``x`` to bfloat16, without a scale. The type of the tensor stays the same.

    In the bits of a single-precision number, bfloat16 is the upper half: noise is added to the lower half.
    """
    if x.dtype is torch.bfloat16:
        return x
    noise = drawn_noise(x, noise)
    if noise is None:
        rounded = x.to(torch.bfloat16).float()
    else:
        bits = x.float().view(torch.int32) + (noise.to(torch.int32) & 0xFFFF)
        rounded = (bits & -0x10000).view(torch.float32)
    rounded = rounded.clamp(-LARGEST_BFLOAT16, LARGEST_BFLOAT16).to(x.dtype)
    return torch.where(x.isfinite(), rounded, x)


def chosen_format(bits: Width, formats: dict[int, Format]) -> Format:
    """Return the format of a width. In a compiled graph the width is a tensor, and so are the parameters.

    A tensor that is none of the widths gives some format: the caller discards the result.
    """
    if isinstance(bits, int):
        return formats[bits]
    mantissa, smallest = torch.zeros_like(bits), torch.zeros_like(bits)
    largest = torch.ones_like(bits, dtype=torch.float64)
    for width, format in formats.items():
        mantissa = torch.where(bits == width, format.mantissa, mantissa)
        smallest = torch.where(bits == width, format.smallest, smallest)
        largest = torch.where(bits == width, format.largest, largest)
    return Format(mantissa, smallest, largest)


def exponent_of(x: Tensor) -> Tensor:
    """Return ``floor(log2(|x|))`` of normal numbers as integers. Smaller numbers give a smaller exponent."""
    if x.dtype is torch.float64:
        return ((x.view(torch.int64) >> 52) & 0x7FF) - 1023
    return ((x.view(torch.int32) >> 23) & 0xFF) - 127


def power_of_two(exponent: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ``2^exponent`` exactly, for exponents from -127 to 127."""
    if dtype is torch.float64:
        return ((exponent.to(torch.int64) + 1023) << 52).view(torch.float64)
    exponent = exponent.to(torch.int32)
    return torch.where(exponent < -126, 1 << 22, (exponent + 127) << 23).to(torch.int32).view(torch.float32)
