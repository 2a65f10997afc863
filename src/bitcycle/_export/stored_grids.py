"""Grids as a file stores them: integers with a scale, for weights and for the fixed ranges of activations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bitcycle._export.recording import Range
from bitcycle.kernels.rounding import BYTE_BITS, Dims, encode, has_a_grid

MOST_SYMMETRIC = 127
"""The largest code of a symmetric 8-bit grid, which is the same in both directions."""
NIBBLE_BITS = 4
"""The largest width that ONNX stores in half a byte."""


@dataclass(frozen=True)
class StoredWeight:
    """A weight as ``codes * scale + zero``. ``scale`` and ``zero`` have the number of dimensions of the codes."""

    codes: Tensor
    scale: Tensor
    zero: Tensor | None
    """What the codes lack to the values, in floating point; None on a symmetric grid."""
    bits: int
    """The bits of an integer that holds a code: 4, 8 or 16."""
    moved: float = 0.0
    """How far values moved from the grid of training, at most, in steps of that grid."""

    def values(self) -> Tensor:
        """Return the values that the file stands for."""
        values = self.codes.to(self.scale.dtype) * self.scale
        return values if self.zero is None else values + self.zero

    def transposed(self) -> StoredWeight:
        """Return the transposed matrix."""
        zero = None if self.zero is None else self.zero.t()
        return StoredWeight(self.codes.t().contiguous(), self.scale.t(), zero, self.bits, self.moved)

    @property
    def axis(self) -> int | None:
        """The dimension along which there is one scale per index; None if one scale is for all, or for other parts."""
        longer = [d for d, size in enumerate(self.scale.shape) if size > 1]
        return longer[0] if len(longer) == 1 else None


def store_weight(weight: Tensor, bits: int, dims: Dims) -> StoredWeight | None:
    """Return a weight on its grid with unchanged values; None if some values have no grid.

    The codes go into the smallest integer that ONNX has for them: 4, 8 or 16 bits.
    """
    weight = weight.detach().float()
    values, _, scale, zero = encode(weight, bits, dims)
    if not bool(has_a_grid(scale, bits).all()):
        return None
    codes = torch.round((values - zero) / scale).to(torch.int32)
    container = next(size for size in (NIBBLE_BITS, BYTE_BITS, 2 * BYTE_BITS) if bits <= size)
    shape = (1,) * weight.dim() if dims is None else scale.shape
    scale, zero = scale.reshape(shape), zero.reshape(shape)
    return StoredWeight(codes, scale, zero if bool(zero.any()) else None, container)


def store_symmetric(weight: Tensor, bits: int, dims: Dims) -> StoredWeight | None:
    """Return a weight on the nearest symmetric 8-bit grid, which integer kernels take.

    A value moves by at most half a step of that grid, ``max |w| / 254``.
    """
    exact = store_weight(weight, bits, dims)
    if exact is None or exact.bits > BYTE_BITS:
        return None
    values = exact.values()
    largest = (
        values.abs().amax(dims, keepdim=True) if dims is not None else values.abs().max().reshape(exact.scale.shape)
    )
    scale = torch.where(largest == 0, 1.0, largest / MOST_SYMMETRIC)
    codes = torch.round(values / scale)
    steps = torch.where(exact.scale < torch.finfo(torch.float32).eps * largest, torch.inf, exact.scale)  # constants
    moved = float(((codes * scale - values).abs() / steps).max())
    return StoredWeight(codes.to(torch.int32), scale, None, BYTE_BITS, moved)


@dataclass(frozen=True)
class FixedGrid:
    """One grid for a whole activation, with a range that does not follow the tensor and that contains 0.

    A value is ``(code - zero_point) * scale`` with codes from 0 to ``2^bits - 1``.
    """

    scale: float
    zero_point: int
    bits: int

    @classmethod
    def of(cls, found: Range, bits: int) -> FixedGrid:
        """Return the grid of a range, widened to contain 0, which must have a code of its own."""
        low, high = min(found.low, 0.0), max(found.high, 0.0)
        levels = 2**bits - 1
        scale = (high - low) / levels or 1.0
        return cls(scale, round(-low / scale), bits)

    @property
    def ends(self) -> Range:
        """The smallest and the largest value of the grid."""
        return Range(-self.zero_point * self.scale, (2**self.bits - 1 - self.zero_point) * self.scale)

    @property
    def container(self) -> int:
        """The bits of the integer that ONNX stores a code in."""
        return BYTE_BITS if self.bits <= BYTE_BITS else 2 * BYTE_BITS
