"""Integers around zero: what hardware for 8-bit integers and most formats of deployed models use."""

from __future__ import annotations

from bitcycle.grids.family import register_grid
from bitcycle.grids.integer import IntegerGrid
from bitcycle.schedules.base import MAX_BITS


@register_grid
class SymmetricGrid(IntegerGrid):
    """``scale = max|x| / (2^(bits - 1) - 1)``, ``value = round(x / scale) * scale``. Zero is on the grid.

    >>> import torch
    >>> SymmetricGrid().round(torch.tensor([-7.0, 0.0, 0.6, 3.0]), bits=4)
    tensor([-7.,  0.,  1.,  3.])
    """

    name = "symmetric"
    widths = tuple(range(2, MAX_BITS + 1))
    has_zero = True
    symmetric = True

    def describe(self, bits: int, error: bool = False) -> str:
        most = 2 ** (bits - 1) - 1
        return f"integers from {-most} to {most}"
