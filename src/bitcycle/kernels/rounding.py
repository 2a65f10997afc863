"""Rounding tensors onto integer grids: pure functions, no state.

A grid of ``bits`` bits over the range of the tensor at hand is affine,

    scale = (max - min) / (2^bits - 1)        code = round((x - min) / scale)        value = code * scale + min

with half rounded to even, or, stochastically, ``round(t + u)`` with ``u`` uniform in (-1/2, 1/2), which is unbiased;
noise comes as 16-bit integers ``n``, of which ``u = (n + 1/2) / 2^16``.
``dims`` are the dimensions that one grid spans; ``None`` is the whole tensor. A width is an ``int``, or inside a
compiled graph a tensor (so that a change of bits recompiles nothing); width 0 is full precision and changes nothing.

A constant tensor stays what it is. A range that is not finite, or too small to be divided, has no grid: such values
pass through unchanged.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import torch
from torch import Tensor

Width = int | Tensor
Dims = tuple[int, ...] | None

MOST_BITS = 16
NOISE_STEP = 2.0**-16
_BYTE_BITS = 8
_BYTE_OFFSET = 128  # codes 0..255 are kept as signed bytes: converting to them is several times faster than to unsigned


class Encoded(NamedTuple):
    """A tensor on its grid, as values to compute with and as what is needed to have them back later."""

    values: Tensor
    codes: Tensor
    scale: Tensor
    zero: Tensor


def round_to_grid(x: Tensor, bits: Width, dims: Dims = None, noise: Tensor | None = None) -> Tensor:
    """The values of ``x`` on a grid, nearest or, if noise is given, stochastically rounded.

    >>> round_to_grid(torch.tensor([0.0, 0.2, 0.7, 3.0]), bits=2)
    tensor([0., 0., 1., 3.])
    """
    return _quantized(x, bits, dims, noise, keep=False).values


def encode(x: Tensor, bits: Width, dims: Dims = None) -> Encoded:
    """Like :func:`round_to_grid` to nearest, and what :func:`decode` needs: up to 8 bits, one byte an element.

    In compiled graphs values are kept instead, and on the CPU where some of them have no grid. On other devices it
    would take a synchronisation to know: there, such values come back as not finite.
    """
    return _quantized(x, bits, dims, None, keep=True)


def _quantized(x: Tensor, bits: Width, dims: Dims, noise: Tensor | None, keep: bool) -> Encoded:
    if _unchanged(x, bits):
        return Encoded(x, x, x, x)
    scale, zero = _grid(x, bits, dims)
    codes = _codes(x, scale, zero, bits, noise)
    everywhere = _all_have_a_grid(scale, bits)
    in_bytes = keep and isinstance(bits, int) and bits <= _BYTE_BITS and (everywhere or scale.device.type != "cpu")
    kept = None
    if in_bytes:
        # In place, there and back: exact for integers, and cheaper than another tensor.
        kept = codes.sub_(_BYTE_OFFSET).to(torch.int8)
        codes.add_(_BYTE_OFFSET)
    values = codes.mul_(scale).add_(zero).to(x.dtype)
    if not everywhere:
        values = torch.where(_has_a_grid(scale, bits), values, x)
    return Encoded(values, values if kept is None else kept, scale, zero)


def decode(codes: Tensor, scale: Tensor, zero: Tensor, dtype: torch.dtype) -> Tensor:
    """The values that :func:`encode` gave, from what it kept."""
    if codes.dtype is not torch.int8:
        return codes
    return codes.to(scale.dtype).add_(_BYTE_OFFSET).mul_(scale).add_(zero).to(dtype)


def check_width(bits: object, what: str = "bits") -> int | None:
    """Bits that the arithmetic has: 1 to 16, or ``None`` for full precision."""
    if bits is None:
        return None
    try:
        width = 0 if isinstance(bits, bool) else operator.index(bits)  # type: ignore[arg-type]
    except TypeError:
        width = 0
    if not 1 <= width <= MOST_BITS:
        raise ValueError(f"{what} is a whole number from 1 to {MOST_BITS}, or None for full precision, not {bits!r}")
    return width


def _unchanged(x: Tensor, bits: Width) -> bool:
    if not x.is_floating_point():
        raise TypeError(f"a quantised product needs floating-point operands, not {x.dtype}")
    return (isinstance(bits, int) and bits == 0) or x.numel() == 0


def _grid(x: Tensor, bits: Width, dims: Dims) -> tuple[Tensor, Tensor]:
    if dims is None:
        low, high = torch.aminmax(x)
    elif len(dims) == 1:
        low, high = torch.aminmax(x, dim=dims[0], keepdim=True)
    else:
        low, high = torch.amin(x, dims, keepdim=True), torch.amax(x, dims, keepdim=True)
    low, high = low.to(_wide(x.dtype)), high.to(_wide(x.dtype))
    if isinstance(bits, int):
        levels: int | Tensor = 2**bits - 1
    else:  # width 0 keeps a harmless grid here and is taken out at the end
        levels = torch.exp2(bits.clamp(min=1).to(low.dtype)) - 1
    scale = (high - low) / levels
    return torch.where(high == low, 1, scale), low


def _codes(x: Tensor, scale: Tensor, zero: Tensor, bits: Width, noise: Tensor | None) -> Tensor:
    """Codes as floating-point numbers, in a tensor of their own that may be changed in place."""
    codes = torch.sub(x.to(scale.dtype), zero).div_(scale)
    if noise is None:
        return codes.round_()
    codes.add_(noise, alpha=NOISE_STEP).add_(NOISE_STEP / 2).round_()
    if isinstance(bits, int):
        return codes.clamp_(0, 2**bits - 1)
    return codes.clamp_(torch.zeros_like(scale), torch.exp2(bits.to(scale.dtype)) - 1)


def _has_a_grid(scale: Tensor, bits: Width) -> Tensor:
    """Where values are on a grid: not in full precision, nor where the range is not finite or next to nothing."""
    usable = torch.isfinite(scale) & (scale >= torch.finfo(scale.dtype).tiny)
    return usable if isinstance(bits, int) else usable & (bits > 0)


def _all_have_a_grid(scale: Tensor, bits: Width) -> bool:
    """Whether all values are, as far as that can be known without a compiled graph's or a device's values."""
    return isinstance(bits, int) and scale.device.type == "cpu" and bool(_has_a_grid(scale, bits).all())


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Grids of half-precision tensors are computed in single precision."""
    return dtype if dtype is torch.float64 else torch.float32
