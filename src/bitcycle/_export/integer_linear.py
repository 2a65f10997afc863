"""Linear layers in 8-bit integers, on the grids of bitcycle: the values of both operands are unchanged.

Around the middle of a grid, a value is ``c * scale + middle`` with a signed code ``c``. The product of a row ``a`` of
activations and an output channel ``w`` of the weight is then

    sum(a w) = scale_a * sum(c_a c_w scale_w) + middle_a * sum(w) + scale_a * sum(c_a) * middle_w

The first sum is a product of integers. Seen by a runtime, it is a ``MatMul`` of two ``DequantizeLinear`` with constant
scales, which onnxruntime computes as ``MatMulIntegerToFloat``, whatever the scales of the rows. The rest is a product
with two rows of constants.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bitcycle._export.stored_grids import FixedGrid
from bitcycle.kernels.rounding import NO_STEP, Dims


class RowGrids(NamedTuple):
    """The grids of the rows of a matrix: ``value = signed code * scale + middle``."""

    shifted: Tensor
    """The matrix, less the value with code 0 where it is not the zero point."""
    scale: Tensor
    """One for each row, as a column."""
    middle: Tensor
    """One for each row, as a column."""
    zero_point: int
    """A code is ``round(shifted / scale) + zero_point``, from 0 to ``2^bits - 1``."""
    middle_code: int
    """What a code is less as a signed code."""


def dynamic_grids(x: Tensor, bits: int, dims: Dims, symmetric: bool) -> RowGrids:
    """Return the grids that follow the values of activations, as bitcycle computes them.

    Args:
        x: The activations.
        bits: The width, at most 8.
        dims: The dimensions that share one grid, with the last one among them; ``None`` for all.
        symmetric: Whether zero has the middle code.
    """
    shared = tuple(range(x.dim())) if dims is None else dims
    low, high = x.amin(shared, keepdim=True), x.amax(shared, keepdim=True)
    middle = 2 ** (bits - 1)
    levels = middle - 1 if symmetric else 2**bits - 1
    extent = torch.maximum(-low, high) if symmetric else high - low
    scale = extent / levels
    # Constants have code 0. So have ranges too small to divide, which bitcycle leaves as they are.
    scale = torch.where(scale < torch.finfo(torch.float32).tiny, NO_STEP, scale)

    # onnxruntime ignores NaN in a minimum, and integers have no NaN: such a row must not become finite.
    nothing = 0.0 * x.sum(-1, keepdim=True)

    def column(values: Tensor) -> Tensor:
        return values.expand(*x.shape[:-1], 1).reshape(-1, 1)

    if symmetric:
        return RowGrids(_as_rows(x), column(scale), column(nothing), middle, middle)
    return RowGrids(_as_rows(x - low), column(scale), column(low + middle * scale + nothing), 0, middle)


def fixed_grids(x: Tensor, grid: FixedGrid) -> RowGrids:
    """Return a grid that does not follow the values, for every row."""
    rows, middle = _as_rows(x), 2 ** (grid.bits - 1)
    scale = torch.full_like(rows[:, :1], grid.scale)
    inside = rows.clamp(*grid.ends) if grid.needs_clipping else rows
    return RowGrids(inside, scale, scale * (middle - grid.zero_point), grid.zero_point, middle)


def multiply(codes: Tensor, grids: RowGrids, weight: Tensor, sums: Tensor, bias: Tensor | None) -> Tensor:
    """Return the product of a matrix and a weight.

    Args:
        codes: The signed codes of the matrix.
        grids: Their grids.
        weight: The signed codes of the weight times its scales, (in, out).
        sums: The sums and the middles of the weight's output channels, (2, out).
        bias: One number for each output channel.
    """
    rows = [grids.middle, grids.scale * codes.sum(1, keepdim=True)]
    if bias is not None:
        rows, sums = [*rows, torch.ones_like(grids.scale)], torch.cat([sums, bias.unsqueeze(0)])
    return torch.addmm(codes.matmul(weight) * grids.scale, torch.cat(rows, 1), sums)


def _as_rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])
