"""Integers on an affine grid that spans the range of the values: the paper's grid."""

from __future__ import annotations

from torch import Tensor

from bitcycle.grids.family import LAST, GridFamily, register_grid
from bitcycle.kernels.float_rounding import Blocks
from bitcycle.kernels.rounding import Dims, Noise, Width, round_to_grid
from bitcycle.schedules.base import MAX_BITS


@register_grid
class IntegerGrid(GridFamily):
    """``scale = (max - min) / (2^bits - 1)``, ``value = round((x - min) / scale) * scale + min``.

    >>> import torch
    >>> IntegerGrid().round(torch.tensor([0.0, 0.2, 0.7, 3.0]), bits=2)
    tensor([0., 0., 1., 3.])
    """

    name = "integer"
    widths = tuple(range(1, MAX_BITS + 1))
    has_codes = True
    has_zero = False

    def round(
        self,
        x: Tensor,
        bits: Width,
        dims: Dims = None,
        noise: Noise = None,
        *,
        along: Blocks = LAST,
        error: bool = False,
    ) -> Tensor:
        return round_to_grid(x, bits, dims, noise, symmetric=self.symmetric)

    def describe(self, bits: int, error: bool = False) -> str:
        return f"{2**bits} integers from the minimum to the maximum"
