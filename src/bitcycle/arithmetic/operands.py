"""Operands of a product on their grids, as codes, as values, or both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from bitcycle.arithmetic.precision import Role, Strength, blend
from bitcycle.grids import INTEGERS, GridFamily
from bitcycle.grids.integer import IntegerGrid
from bitcycle.kernels import native
from bitcycle.kernels.images import encode_images, to_channels_last
from bitcycle.kernels.integer_sums import Grid
from bitcycle.kernels.rounding import (
    BYTE_BITS,
    Dims,
    Noise,
    Width,
    decode,
    encode,
    encode_in_bytes,
    has_a_grid,
    is_full_precision,
    origin_of,
)


class OperandSpec(NamedTuple):
    """How an operand is put on its grid.

    Args:
        dims: The dimensions that share one grid. ``None`` is one grid for the whole tensor.
        already_rounded: The operand is on its grid, and is used as it is.
        role: What the operand is; by default a parameter or a view of one is a weight, and all else an activation.
    """

    dims: Dims = None
    already_rounded: bool = False
    role: Role | None = None


PER_TENSOR = OperandSpec()


@dataclass(eq=False, slots=True, weakref_slot=True)
class Operand:
    """A tensor on its grid.

    Codes are stored in bytes, less an offset. Where there are no such codes (more than 8 bits, full precision, a
    strength below 1, values without a grid, compiled graphs), ``codes`` are the values.
    """

    codes: Tensor
    scale: Tensor
    zero: Tensor
    bits: Width
    offset: int
    dtype: torch.dtype
    known_values: Tensor | None = None
    pixel_sums: Tensor | None = None
    """The sums of the codes of each pixel, for images whose codes are stored with the channels last."""
    results_channels_last: bool = False
    """Whether products of these images are to have the channels last in memory, too."""
    symmetric: bool = False
    """Whether the value of the middle code is 0, and so is ``zero``."""

    @property
    def in_bytes(self) -> bool:
        """Whether there are codes."""
        return self.codes.dtype is torch.int8

    @property
    def origin(self) -> int:
        """The code whose value is ``zero``."""
        return origin_of(self.bits, self.symmetric) if self.in_bytes and isinstance(self.bits, int) else 0

    def values(self) -> Tensor:
        """Return the values, from the codes if they are not known."""
        if self.known_values is None:
            self.known_values = decode(self.codes, self.scale, self.zero, self.dtype, self.offset, self.origin)
        return self.known_values

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tensors that autograd saves of an operand; see :meth:`restored`."""
        return self.codes, self.scale, self.zero

    def numbers(self) -> tuple[Width, int, bool]:
        """Return what else a backward pass needs to know of its grids."""
        return self.bits, self.offset, self.symmetric

    @classmethod
    def restored(
        cls, tensors: tuple[Tensor, Tensor, Tensor], numbers: tuple[Width, int, bool], dtype: torch.dtype
    ) -> Operand:
        """Return an operand from its :meth:`tensors` and :meth:`numbers`, without the values that were known."""
        (codes, scale, zero), (bits, offset, symmetric) = tensors, numbers
        return cls(codes, scale, zero, bits, offset, dtype, symmetric=symmetric)

    def grid(self) -> Grid:
        """Return the grids of the codes, one after the other."""
        return Grid(self.scale.reshape(-1), self.zero.reshape(-1), self.offset - self.origin)

    def with_unit_scale(self) -> tuple[Operand, Tensor, Tensor]:
        """Split the values ``scale * unit + middle``. Return the operand ``unit``, ``scale`` and ``middle``.

        The middle of a grid has the code ``2^(bits - 1)``. Values without a grid have the scale 1 and the middle 0.
        """
        half = 2.0 ** (self.bits - 1) if isinstance(self.bits, int) else torch.exp2(self.bits.to(self.scale.dtype) - 1)
        middle = self.zero if self.symmetric else self.zero + self.scale * half
        if self.in_bytes:
            one = torch.ones((), dtype=self.scale.dtype, device=self.scale.device)
            zero = torch.zeros_like(one) if self.symmetric else -half * one
            return replace(self, scale=one, zero=zero, known_values=None), self.scale, middle
        usable = has_a_grid(self.scale, self.bits)
        scale, middle = torch.where(usable, self.scale, 1), torch.where(usable, middle, 0)
        values = (self.codes.to(scale.dtype) - middle) / scale
        return Operand(values.to(self.dtype), scale, middle, 0, 0, self.dtype, values.to(self.dtype)), scale, middle


def put_on_grid(
    x: Tensor,
    bits: Width,
    spec: OperandSpec = PER_TENSOR,
    noise: Noise = None,
    *,
    strength: Strength = 1.0,
    values: bool = True,
    codes: bool = True,
    channels_last: bool = False,
    grid: GridFamily = INTEGERS,
) -> Operand:
    """Round a tensor to its grid.

    Args:
        x: The tensor.
        bits: The width; 0 is full precision.
        spec: How it is put on its grid.
        noise: For stochastic rounding; by default it is rounded to nearest.
        strength: How far the values go from the tensor to its grid.
        values: Whether values are wanted at once.
        codes: Whether codes are wanted.
        channels_last: Store the codes of images with the channels last, as they are, in unsigned bytes. Otherwise
            codes are stored around 0, in signed bytes.
        grid: What the width means.
    """
    if spec.already_rounded or is_full_precision(bits):
        return Operand(x, x, x, 0, 0, x.dtype, x)
    if not codes or not isinstance(grid, IntegerGrid):
        rounded = blend(x, grid.round(x, bits, spec.dims, noise), strength)
        return Operand(rounded, rounded, rounded, bits, 0, x.dtype, rounded)
    symmetric = grid.symmetric
    if isinstance(strength, Tensor) or strength != 1:
        encoded = encode(x, bits, spec.dims, noise, symmetric=symmetric)
        blended = blend(x, encoded.values, strength)
        return Operand(blended, encoded.scale, encoded.zero, bits, 0, x.dtype, blended, symmetric=symmetric)
    offset = 0
    if isinstance(bits, int) and bits <= BYTE_BITS:
        if channels_last:
            return _images_on_grid(x, bits, spec, noise, symmetric)
        offset = 2 ** (bits - 1)
        in_bytes = None if values else encode_in_bytes(x, bits, spec.dims, noise, offset, symmetric=symmetric)
        if in_bytes is not None:
            stored, scale, zero = in_bytes[1:]
            return Operand(stored, scale, zero, bits, offset, x.dtype, symmetric=symmetric)
    rounded, stored, scale, zero = encode(x, bits, spec.dims, noise, offset, symmetric=symmetric)
    return Operand(stored, scale, zero, bits, offset, x.dtype, rounded, symmetric=symmetric)


def _images_on_grid(x: Tensor, bits: int, spec: OperandSpec, noise: Noise, symmetric: bool) -> Operand:
    images = encode_images(x, bits, noise, symmetric=symmetric) if spec.dims is None else None
    if images is not None:
        codes, scale, zero, sums = images
        return Operand(codes, scale, zero, bits, 0, x.dtype, pixel_sums=sums, symmetric=symmetric)
    values, stored, scale, zero = encode(x, bits, spec.dims, noise, offset=0, symmetric=symmetric)
    if stored.dtype is torch.int8:
        return Operand(to_channels_last(stored), scale, zero, bits, 0, x.dtype, symmetric=symmetric)
    values = to_channels_last(values)
    return Operand(values, scale, zero, bits, 0, x.dtype, values, symmetric=symmetric)


class _Use(NamedTuple):
    """What a weight was rounded for. Another use of the same weight, unchanged, can share the result."""

    version: int
    address: int
    fingerprint: int
    """Writes to ``weight.data`` change it, but not the version."""
    bits: Width
    dims: Dims
    grid: GridFamily


_IN_USE = WeakIdKeyDictionary()  # from parameters to (_Use, weak reference to the operand)


def shared_weight(weight: Tensor, bits: Width, spec: OperandSpec, grid: GridFamily) -> Operand | None:
    """Return the codes of a parameter that another product has rounded, if its backward pass is still to come.

    A layer that is called several times in one forward pass, or a weight that several layers share, is rounded once.
    """
    found: tuple[_Use, ReferenceType[Operand]] | None = _IN_USE.get(weight)
    operand = None if found is None else found[1]()
    if found is None or operand is None or found[0] != _use(weight, bits, spec, grid):
        return None
    return operand


def share_weight(weight: Tensor, operand: Operand, bits: Width, spec: OperandSpec, grid: GridFamily) -> None:
    """Let other products use the codes of a parameter, as long as the caller keeps the operand."""
    if not isinstance(weight, nn.Parameter) or not operand.in_bytes:
        return
    use = _use(weight, bits, spec, grid)
    if use is not None:
        _IN_USE[weight] = (use, ref(operand))


def _use(weight: Tensor, bits: Width, spec: OperandSpec, grid: GridFamily) -> _Use | None:
    """Return the use of a weight; None if the native kernels do not take it, and nothing tells its values apart."""
    fingerprint = native.fingerprint(weight)
    if fingerprint is None:
        return None
    return _Use(weight._version, weight.data_ptr(), fingerprint, bits, spec.dims, grid)
