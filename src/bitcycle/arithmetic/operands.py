"""The operands of a product on their grids: as codes of one byte, or as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bitcycle.arithmetic.precision import Role, Strength, blend
from bitcycle.grids.family import LAST, GridFamily
from bitcycle.kernels.float_rounding import Blocks
from bitcycle.kernels.integer_sums import Grid
from bitcycle.kernels.rounding import (
    BYTE_BITS,
    Dims,
    Noise,
    Width,
    decode,
    encode,
    has_a_grid,
)


class OperandSpec(NamedTuple):
    """How an operand is put on its grid.

    Args:
        dims: The dimensions that share one grid. ``None`` is one grid for the whole tensor.
        already_rounded: The operand is on its grid, and is used as it is.
        role: What the operand is; by default a parameter or a view of one is a weight, and all else an activation.
        keeps_zeros: Zeros stay zero, also if the grid has no zero.
        with_zero: An affine grid spans the range of the operand and of 0.
    """

    dims: Dims = None
    already_rounded: bool = False
    role: Role | None = None
    keeps_zeros: bool = False
    with_zero: bool = False

    @property
    def has_own_values(self) -> bool:
        """Whether some values may not be on the grid of the others, so that they have no codes."""
        return self.already_rounded or self.keeps_zeros


@dataclass(eq=False, slots=True)
class Values:
    """An operand as it is multiplied. Values that are not on grids of integers have no scale."""

    tensor: Tensor
    scale: Tensor | None = None
    zero: Tensor | None = None
    bits: Width = 0
    symmetric: bool = False

    def values(self) -> Tensor:
        """Return the values."""
        return self.tensor

    def split(self) -> tuple[Values, Tensor, Tensor]:
        """Return ``unit``, ``scale`` and ``middle`` with values ``scale * unit + middle``; ``middle`` has one code.

        The noise of grad_output is multiplied by ``unit``. The code of the middle is 0 if the grids start near 0,
        as those of the results of a ReLU or a softmax, most of which are 0; else it is half of the codes there are.
        The scale is 1 and the middle is 0 where there is no grid.
        """
        assert self.scale is not None
        assert self.zero is not None
        middle = self.zero
        if not self.symmetric:
            bits = self.bits
            half = 2.0 ** (bits - 1) if isinstance(bits, int) else torch.exp2(bits.to(middle.dtype) - 1)
            starts_near_zero = middle.sum().abs() < half / 2 * self.scale.sum()
            middle = middle + self.scale * torch.where(starts_near_zero, 0.0, half)
        usable = has_a_grid(self.scale, self.bits)
        scale, middle = torch.where(usable, self.scale, 1), torch.where(usable, middle, 0)
        return Values(self.tensor.to(scale.dtype).sub(middle).div_(scale).to(self.tensor.dtype)), scale, middle

    def reshaped(self, function: Callable[[Tensor, float | Tensor], Tensor]) -> Operand:
        """Return the values in another shape, as a function gives it for a tensor and what it is filled with."""
        tensor = function(self.tensor, 0)
        return self if tensor is self.tensor else Values(tensor)

    def saved(self) -> tuple[Tensors, Form]:
        """Return the tensors that autograd saves, and what else :func:`restored` needs."""
        return (self.tensor, self.scale, self.zero), (Values, self.bits, self.symmetric)


@dataclass(eq=False, slots=True)
class Codes:
    """An operand on grids of integers, as codes of one byte, which are stored less an offset."""

    stored: Tensor
    scale: Tensor
    zero: Tensor
    bits: int
    origin: int
    """The code whose value is ``zero``: 0, or the middle code, whose value then is 0."""
    offset: int
    dtype: torch.dtype
    known: Tensor | None = None
    """The values, until they are forgotten."""
    pixel_sums: Tensor | None = None
    """The sums of the codes of each pixel, for images whose codes are stored with the channels last."""
    channels_last: bool = False
    """Whether the images or the kernel had the channels last in memory, as results of their products then have."""
    middle: int | Tensor | None = None
    """The stored code of the value 0, in what :meth:`split` returned: a tensor on other devices than the CPU."""

    def values(self) -> Tensor:
        """Return the values."""
        if self.known is not None:
            return self.known
        return decode(self.stored, self.scale, self.zero, self.dtype, self.offset, self.origin)

    def grid(self) -> Grid:
        """Return the grids of the stored codes, one after the other."""
        return Grid(self.scale.reshape(-1), self.zero.reshape(-1), self.offset - self.origin)

    def split(self) -> tuple[Codes, Tensor, Tensor]:
        """Return ``unit``, ``scale`` and ``middle`` as :meth:`Values.split` does, with the codes of ``unit``."""
        code: int | Tensor = 1 << self.bits - 1
        if not self.origin:
            reach, limit = self.zero.sum(), self.scale.sum()
            if self.scale.is_cpu:
                code = 0 if abs(reach.item()) < code / 2 * limit.item() else code
            else:  # without waiting for the device
                code = torch.where(reach.abs() < code / 2 * limit, 0, code)
        lower = self.origin - code
        zero = lower.to(self.scale.dtype) if isinstance(lower, Tensor) else self.scale.new_full((), lower)
        unit = Codes(
            self.stored, torch.ones_like(zero), zero, self.bits, self.origin, self.offset, self.dtype, None,
            self.pixel_sums, self.channels_last, code - self.offset,
        )  # fmt: skip
        return unit, self.scale, torch.addcmul(self.zero, self.scale, zero, value=-1)

    def reshaped(self, function: Callable[[Tensor, float | Tensor], Tensor]) -> Operand:
        """Return the values in another shape, see :meth:`Values.reshaped`: as codes if they have one grid."""
        stored = function(self.stored, 0 if self.middle is None else self.middle)
        if stored is self.stored:
            return self
        if self.scale.numel() > 1 or (stored.numel() > self.stored.numel() and self.middle is None):
            return Values(function(self.values(), 0))
        scale, zero = self.scale.reshape(()), self.zero.reshape(())
        return Codes(
            stored, scale, zero, self.bits, self.origin, self.offset, self.dtype, None, self.pixel_sums,
            self.channels_last, self.middle,
        )  # fmt: skip

    def saved(self) -> tuple[Tensors, Form]:
        """Return the tensors that autograd saves, and what else :func:`restored` needs."""
        form = (Codes, self.bits, self.origin, self.offset, self.dtype)
        return (self.stored, self.scale, self.zero), form


Operand = Values | Codes
Tensors = tuple[Tensor, Tensor | None, Tensor | None]
Form = tuple[Any, ...]


def restored(tensors: Tensors, form: Form) -> Operand:
    """Return an operand from what its method ``saved`` returned."""
    kind, *numbers = form
    operand: Operand = kind(*tensors, *numbers)
    return operand


SMALL = 16_384
"""Operands with fewer elements are saved as values: what codes would save of their memory is not worth the time."""


def put_on_grid(
    x: Tensor,
    bits: Width,
    spec: OperandSpec,
    grid: GridFamily,
    *,
    noise: Noise = None,
    strength: Strength = 1.0,
    saves: bool = False,
    along: Blocks = LAST,
    error: bool = False,
    factors: Tensor | None = None,
) -> Operand:
    """Round a tensor to its grid.

    Args:
        x: The tensor.
        bits: The width; 0 is full precision.
        spec: How it is put on its grid.
        grid: What the width means.
        noise: For stochastic rounding; by default it is rounded to nearest.
        strength: How far the values go from the tensor to its grid.
        saves: Whether a backward pass needs the operand: it is saved as codes where there are any, if it is not small.
        along: The dimensions that blocks run along.
        error: Whether it is an error (grad_output), which can have another format.
        factors: What the tensor is first multiplied by, on grids of integers.
    """
    if spec.already_rounded or x.numel() == 0 or (isinstance(bits, int) and bits == 0):
        return Values(x)
    if not grid.has_codes:
        return Values(blend(x, grid.round(x, bits, spec.dims, noise, along=along, error=error), strength))
    symmetric = grid.symmetric
    is_whole = isinstance(strength, float) and strength == 1 and not spec.keeps_zeros
    half = 1 << bits - 1 if isinstance(bits, int) and bits <= BYTE_BITS else 0
    in_bytes = saves and is_whole and half > 0 and x.numel() >= SMALL
    values, stored, scale, zero = encode(
        x, bits, spec.dims, noise, half, symmetric=symmetric, with_zero=spec.with_zero, codes=in_bytes, factors=factors
    )
    if in_bytes and stored.dtype is torch.int8:
        assert isinstance(bits, int)
        return Codes(stored, scale, zero, bits, half if symmetric else 0, half, x.dtype, known=values)
    if not is_whole:
        values = torch.where(x == 0, x, values) if spec.keeps_zeros else values
        values = blend(x, values, strength)
    return Values(values, scale, zero, bits, symmetric)
