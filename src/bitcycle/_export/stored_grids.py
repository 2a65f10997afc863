"""Grids as a file stores them: integers with a scale, for weights and for the fixed ranges of activations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bitcycle._export.recording import Range
from bitcycle.kernels.rounding import BYTE_BITS, Dims, encode, has_a_grid

MAX_SYMMETRIC = 127
"""The largest code of a symmetric 8-bit grid, which is the same in both directions."""
MIDDLE = 128
"""The byte that stands for the signed code 0 in the weights of integer kernels."""
NIBBLE_BITS = 4
"""The largest width that ONNX stores in half a byte."""


@dataclass(frozen=True)
class StoredWeight:
    """A weight as ``codes * scale + zero``. ``scale`` and ``zero`` have the number of dimensions of the codes."""

    codes: Tensor
    scale: Tensor
    zero: Tensor | None
    """What the codes lack to the values, in floating point; None if that is nothing."""
    bits: int
    """The bits of an integer that holds a code: 4, 8 or 16."""
    signed: bool = False
    """Whether a code can be negative."""

    def values(self) -> Tensor:
        """Return the values that the file stands for."""
        values = self.codes.to(self.scale.dtype) * self.scale
        return values if self.zero is None else values + self.zero

    def around_the_middle(self, bits: int) -> StoredWeight:
        """Return the same values with signed codes, from ``-2^(bits - 1)``."""
        if self.signed:
            return self
        middle = 2 ** (bits - 1)
        zero = self.scale * middle if self.zero is None else self.zero + self.scale * middle
        return replace(self, codes=self.codes - middle, zero=zero, signed=True)

    @property
    def axis(self) -> int | None:
        """The dimension along which there is one scale per index; None if one scale is for all, or for other parts."""
        longer = [d for d, size in enumerate(self.scale.shape) if size > 1]
        return longer[0] if len(longer) == 1 else None


def store_weight(weight: Tensor, bits: int, dims: Dims, symmetric: bool = False) -> StoredWeight | None:
    """Return a weight on its grid with unchanged values; None if some values have no grid.

    The codes go into the smallest integer that ONNX has for them: 4, 8 or 16 bits, signed on a symmetric grid.
    """
    weight = weight.detach().float()
    values, _, scale, zero = encode(weight, bits, dims, symmetric=symmetric)
    if not bool(has_a_grid(scale, bits).all()):
        return None
    codes = torch.round((values - zero) / scale).to(torch.int32)
    container = next(size for size in (NIBBLE_BITS, BYTE_BITS, 2 * BYTE_BITS) if bits <= size)
    shape = (1,) * weight.dim() if dims is None else scale.shape
    scale, zero = scale.reshape(shape), zero.reshape(shape)
    return StoredWeight(codes, scale, zero if bool(zero.any()) else None, container, symmetric)


def store_nearest_symmetric(weight: Tensor, bits: int, dims: Dims, symmetric: bool = False) -> StoredWeight | None:
    """Return a weight on the nearest symmetric 8-bit grid, which integer convolutions take.

    A value moves by at most half a step of that grid, ``max |w| / 254``. Values that are on a symmetric grid stay.
    """
    exact = store_weight(weight, bits, dims, symmetric)
    if exact is None or exact.bits > BYTE_BITS:
        return None
    if symmetric:
        return replace(exact, bits=BYTE_BITS)
    values = exact.values()
    largest = values.abs().amax(tuple(range(values.dim())) if dims is None else dims, keepdim=True)
    scale = torch.where(largest == 0, 1.0, largest / MAX_SYMMETRIC)
    codes = torch.round(values / scale).to(torch.int32)
    return StoredWeight(codes, scale, None, BYTE_BITS, signed=True)


@dataclass(frozen=True)
class FixedGrid:
    """One grid for a whole activation, with a range that does not follow the tensor and that contains 0.

    A value is ``(code - zero_point) * scale`` with codes from ``lowest`` to ``2^bits - 1``.
    """

    scale: float
    zero_point: int
    bits: int
    lowest: int = 0
    """The smallest code: 1 on a symmetric grid, which has as many negative values as positive ones."""

    @classmethod
    def of(cls, found: Range, bits: int, symmetric: bool = False) -> FixedGrid:
        """Return the grid of a range, widened to contain 0, which must have a code of its own."""
        low, high = min(found.low, 0.0), max(found.high, 0.0)
        if symmetric:
            middle = 2 ** (bits - 1)
            return cls(max(-low, high) / (middle - 1) or 1.0, middle, bits, lowest=1)
        scale = (high - low) / (2**bits - 1) or 1.0
        return cls(scale, round(-low / scale), bits)

    @property
    def ends(self) -> Range:
        """The smallest and the largest value of the grid."""
        return Range((self.lowest - self.zero_point) * self.scale, (2**self.bits - 1 - self.zero_point) * self.scale)
