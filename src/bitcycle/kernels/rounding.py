"""Rounding tensors to integer grids: pure functions without state.

A grid of ``bits`` bits is affine and spans the range of its tensor:

    scale = (max - min) / (2^bits - 1)        code = round((x - min) / scale)        value = code * scale + min

A symmetric grid of ``bits`` bits, from 2 on, has zero among its values:

    scale = max|x| / (2^(bits - 1) - 1)       code = round(x / scale) + 2^(bits - 1)
                                              value = (code - 2^(bits - 1)) * scale

Both are ``value = (code - origin) * scale + zero``: the origin of the first is 0, the zero of the second is 0. An
affine grid ``with_zero`` spans the range of its tensor and of 0: the grid of numbers that are not negative starts at 0.

Rounding to nearest rounds half to even. Stochastic rounding computes ``round(t + u)`` with ``u`` uniform in
(-1/2, 1/2), which is unbiased. The noise is given as 16-bit integers ``n`` with ``u = (n + 1/2) / 2^16``, or as the key
it is drawn from, see :mod:`bitcycle.kernels.noise`. ``dims`` are the dimensions that share one grid; ``None`` means the
whole tensor. A width is an ``int``, or a tensor inside a compiled graph (so that a change of bits does not recompile).
Width 0 is full precision and changes nothing.

A constant tensor is unchanged. A range that is not finite, or too small to divide, has no grid: its values pass through
unchanged.

The torch operations below are the reference. On the CPU, in single precision, the native kernels compute the same in
one pass, see :mod:`bitcycle.kernels.native`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bitcycle.kernels import native
from bitcycle.kernels.noise import NoiseKey, noise_of

Width = int | Tensor
Dims = tuple[int, ...] | None
Noise = Tensor | NoiseKey | None

NOISE_STEP = 2.0**-16
BYTE_BITS = 8
"""The largest width whose codes fit in a byte."""
OFFSET = 128
"""Codes 0..255 are stored as signed bytes, less this offset unless another one is given."""
NO_STEP = 2.0**-100
"""The scale of a constant tensor, whose codes are 0: so small that its product with an offset changes no sum."""


class Encoded(NamedTuple):
    """A tensor on its grid: the values to compute with, and the codes from which :func:`decode` recovers them."""

    values: Tensor
    codes: Tensor
    scale: Tensor
    zero: Tensor


class InBytes(NamedTuple):
    """The codes of a tensor in bytes, with their grids."""

    codes: Tensor
    scale: Tensor
    zero: Tensor
    pixel_sums: Tensor | None = None
    """The sum of the codes of each pixel (images, rows, columns), if they have the channels last."""


def is_full_precision(bits: Width) -> bool:
    """Return whether a width is known to be 0; the width in a compiled graph is not known."""
    return isinstance(bits, int) and bits == 0


def drawn_noise(like: Tensor, noise: Noise) -> Tensor | None:
    """Return noise as integers for a tensor: drawn from its key, or as it is if it was given as integers."""
    return noise_of(like, noise) if isinstance(noise, tuple) else noise


def origin_of(bits: int, symmetric: bool) -> int:
    """Return the code whose value is the zero point of a grid."""
    return 1 << bits - 1 if symmetric else 0


def round_to_grid(
    x: Tensor,
    bits: Width,
    dims: Dims = None,
    noise: Noise = None,
    *,
    symmetric: bool = False,
    with_zero: bool = False,
) -> Tensor:
    """Round ``x`` to its grid: to nearest, or stochastically if noise is given.

    >>> round_to_grid(torch.tensor([0.0, 0.2, 0.7, 3.0]), bits=2)
    tensor([0., 0., 1., 3.])
    >>> round_to_grid(torch.tensor([0.0, 0.2, 2.7, 3.0]), bits=2, symmetric=True)
    tensor([0., 0., 3., 3.])
    """
    return encode(x, bits, dims, noise, symmetric=symmetric, with_zero=with_zero, codes=False).values


def encode(
    x: Tensor,
    bits: Width,
    dims: Dims = None,
    noise: Noise = None,
    offset: int = OFFSET,
    *,
    symmetric: bool = False,
    with_zero: bool = False,
    codes: bool = True,
    factors: Tensor | None = None,
) -> Encoded:
    """Round ``x`` and return the values with their codes: one byte per element for up to 8 bits.

    It is first multiplied by its factors, if given: a tensor in single precision that is 1 along some dimensions.
    Values are in the place of codes without ``codes``, in a compiled graph, and on the CPU where some values have no
    grid. Other devices would have to synchronise to find out, and :func:`decode` returns non-finite numbers there.
    """
    if not x.is_floating_point():
        check_floating(x)
    if x.numel() == 0 or (isinstance(bits, int) and bits == 0):
        return Encoded(x, x, x, x)
    if isinstance(bits, int) and not isinstance(noise, Tensor) and native.supports(x):
        in_bytes = codes and bits <= BYTE_BITS
        rounded = native.encode(
            x, bits, dims, noise, offset, True, in_bytes, symmetric, factors=factors, with_zero=with_zero
        )
        if rounded is not None:
            stored = rounded.values if rounded.codes is None or rounded.without_grid else rounded.codes
            return Encoded(rounded.values, stored, rounded.scale, rounded.zero)
    if factors is not None:
        scaled = x * factors
        encoded = encode(scaled, bits, dims, noise, offset, symmetric=symmetric, with_zero=with_zero, codes=codes)
        return encoded if scaled.dtype is x.dtype else encoded._replace(values=encoded.values.to(x.dtype))
    return _round(x, bits, dims, noise, codes, offset, symmetric, with_zero)


def encode_in_bytes(
    x: Tensor,
    bits: int,
    dims: Dims = None,
    noise: Noise = None,
    offset: int = OFFSET,
    *,
    symmetric: bool = False,
    with_zero: bool = False,
    factors: Tensor | None = None,
    channels_last: bool = False,
) -> InBytes | None:
    """Round ``x`` to codes of one byte, without their values; None if some values have no grid.

    Only for the CPU and for widths of 1 to 8 bits. Images can have codes with the channels last in memory, with one
    grid, one for each image or one for each channel, and the offset 0.
    """
    x = x.float() if x.dtype is torch.float16 else x
    if not isinstance(noise, Tensor) and native.supports(x, native.FLOATS) and x.numel() > 0:
        rounded = native.encode(
            x, bits, dims, noise, offset, False, True, symmetric, channels_last, factors=factors, with_zero=with_zero
        )
        if rounded is not None:
            found = InBytes(rounded.codes, rounded.scale, rounded.zero, rounded.pixel_sums)
            return None if rounded.without_grid else found
    _, codes, scale, zero = encode(
        x, bits, dims, noise, offset, symmetric=symmetric, with_zero=with_zero, factors=factors
    )
    if codes.dtype is not torch.int8:
        return None
    if not channels_last:
        return InBytes(codes, scale, zero)
    codes = codes.contiguous(memory_format=torch.channels_last)
    return InBytes(codes, scale, zero, codes.view(torch.uint8).sum(1, dtype=torch.int32))


def _round(
    x: Tensor,
    bits: Width,
    dims: Dims,
    noise: Noise,
    in_codes: bool,
    offset: int,
    symmetric: bool,
    with_zero: bool,
) -> Encoded:
    scale, zero = _grid(x, bits, dims, symmetric, with_zero)
    codes = _codes(x, scale, zero, bits, drawn_noise(x, noise), symmetric)
    all_on_grid = _all_have_a_grid(scale, bits)
    in_bytes = in_codes and isinstance(bits, int) and bits <= BYTE_BITS and (all_on_grid or scale.device.type != "cpu")
    stored = None
    if in_bytes:
        assert isinstance(bits, int)
        # Shifting the codes in place and back is exact for integers, and cheaper than a second tensor.
        shift = offset - origin_of(bits, symmetric)
        stored = _in_bytes(codes.sub_(shift))
        codes.add_(shift)
    values = codes.mul_(scale).add_(zero).to(x.dtype)
    if not all_on_grid:
        values = torch.where(has_a_grid(scale, bits), values, x)
    return Encoded(values, values if stored is None else stored, scale, zero)


def _in_bytes(numbers: Tensor) -> Tensor:
    """Return whole numbers modulo 256 as signed bytes."""
    return numbers.to(torch.int16).to(torch.int8)


def decode(
    codes: Tensor, scale: Tensor, zero: Tensor, dtype: torch.dtype, offset: int = OFFSET, origin: int = 0
) -> Tensor:
    """Recover the values that :func:`encode` returned with the same offset, for the origin of the grid."""
    if codes.dtype is not torch.int8:
        return codes
    if dtype is torch.float32:
        values = native.decode(codes, scale, zero, offset, origin)
        if values is not None:
            return values
    return (codes + offset).view(torch.uint8).to(scale.dtype).sub_(origin).mul_(scale).add_(zero).to(dtype)


def check_floating(x: Tensor) -> None:
    """Raise a TypeError if a tensor has no floating-point values."""
    if not x.is_floating_point():
        raise TypeError(f"a quantised product needs floating-point operands, got {x.dtype}")


def _grid(x: Tensor, bits: Width, dims: Dims, symmetric: bool, with_zero: bool) -> tuple[Tensor, Tensor]:
    if dims is None:
        low, high = torch.aminmax(x)
    elif len(dims) == 1:
        low, high = torch.aminmax(x, dim=dims[0], keepdim=True)
    else:
        low, high = torch.amin(x, dims, keepdim=True), torch.amax(x, dims, keepdim=True)
    low, high = low.to(_grid_dtype(x.dtype)), high.to(_grid_dtype(x.dtype))
    if symmetric:
        low, high = torch.zeros_like(low), torch.maximum(-low, high)
    elif with_zero:
        low, high = low.clamp(max=0), high.clamp(min=0)
    levels = _levels(bits, symmetric, low.dtype)
    difference = high - low  # not a number in a tensor of infinities, which has no grid
    return torch.where(difference == 0, NO_STEP, difference / levels), low + 0.0  # no negative zero


def _levels(bits: Width, symmetric: bool, dtype: torch.dtype) -> int | Tensor:
    """Return the largest code, from the origin: ``2^bits - 1``, or ``2^(bits - 1) - 1`` if the grid is symmetric."""
    sign = 1 if symmetric else 0
    if isinstance(bits, int):
        return 2 ** (bits - sign) - 1
    # Width 0 gets a valid grid here; has_a_grid discards it at the end.
    return torch.exp2(bits.clamp(min=1 + sign).to(dtype) - sign) - 1


def _codes(x: Tensor, scale: Tensor, zero: Tensor, bits: Width, noise: Tensor | None, symmetric: bool) -> Tensor:
    """Return the codes less the origin as floating-point numbers, in a new tensor that the caller may change."""
    codes = torch.sub(x.to(scale.dtype), zero).div_(scale)
    if noise is None:
        return codes.round_()
    codes.add_(noise.to(scale.dtype).add_(0.5).mul_(NOISE_STEP)).round_()
    highest = _levels(bits, symmetric, scale.dtype)
    if isinstance(highest, int):
        return codes.clamp_(-highest if symmetric else 0, highest)
    return codes.clamp_(-highest if symmetric else torch.zeros_like(highest), highest)


def has_a_grid(scale: Tensor, bits: Width) -> Tensor:
    """Return where there is a grid: not in full precision, and not where the range is infinite, NaN or tiny."""
    usable = torch.isfinite(scale) & (scale >= torch.finfo(scale.dtype).tiny)
    return usable if isinstance(bits, int) else usable & (bits > 0)


def _all_have_a_grid(scale: Tensor, bits: Width) -> bool:
    """Return whether all values have a grid; False if only a compiled graph or another device could tell."""
    if torch.compiler.is_compiling() or not isinstance(bits, int) or scale.device.type != "cpu":
        return False
    return bool(has_a_grid(scale, bits).all())


def _grid_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of a grid: single precision for half-precision tensors."""
    return dtype if dtype is torch.float64 else torch.float32
