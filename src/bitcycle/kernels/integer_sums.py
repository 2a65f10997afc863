"""From sums of integer codes to floating-point products.

A matrix on its grid is ``P = s_p p + z_p`` with stored codes ``p``: the code less an offset, so that
``z_p = zero + s_p offset``. Along the dimension that is summed, a matrix has one scale and one zero. Then

    (P Q)_mn = s_p(m) s_q(n) S_mn + s_p(m) z_q(n) r_m + z_p(m) (s_q(n) c_n + K z_q(n))

with ``S = p q`` in integers, ``r`` the sums of the rows of ``p``, ``c`` the sums of the columns of ``q``, and ``K`` the
number of terms. In a convolution with padding, ``c`` and ``K`` depend on how the output position lies in the image:
rows are of several kinds, which repeat from image to image.

The native kernels compute the same as the torch operations here, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.kernels import native

MAX_TERMS = 2**17 - 1
"""A sum of this many products of two signed bytes stays within 32 bits."""


class Grid(NamedTuple):
    """The grids of a matrix of codes: one scale and zero, or one for each row (or column) that is not summed.

    One can also belong to several consecutive rows, as many for each.
    """

    scale: Tensor
    zero: Tensor
    offset: int
    """The stored codes are the codes less this offset."""

    def stored_zero(self) -> Tensor:
        """Return the value of the stored code 0."""
        return self.zero + self.scale * self.offset


def multiply(
    p: Tensor,
    q: Tensor,
    p_grid: Grid,
    q_grid: Grid,
    bias: Tensor | None = None,
    row_bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    *,
    is_summed: bool = False,
) -> Tensor:
    """Return ``p q^T`` over the last two dimensions, of matrices of signed codes on their grids.

    Args:
        p: The codes (..., rows, terms). The rows or the terms are next to one another in memory.
        q: The codes (..., columns, terms).
        p_grid: One grid, or one for each row of each matrix.
        q_grid: One grid, or one for each column of each matrix.
        bias: Added to each row of the result, in single precision (..., columns).
        row_bias: Added to each column of the result, in single precision, (..., rows).
        dtype: The type of the result.
        is_summed: Return the sum of the products of all matrices, to which biases are added once.
    """
    out = native.multiply(p, q, p_grid, q_grid, bias, row_bias, dtype, is_summed)
    return _multiply(p, q, p_grid, q_grid, bias, row_bias, is_summed).to(dtype) if out is None else out


def _multiply(
    p: Tensor,
    q: Tensor,
    p_grid: Grid,
    q_grid: Grid,
    bias: Tensor | None,
    row_bias: Tensor | None,
    is_summed: bool = False,
) -> Tensor:
    """Compute :func:`multiply` by torch operations, which the kernel follows one by one."""
    if p.dim() > 2:
        matrices = p.shape[:-2].numel()
        grids = []
        for scale, zero, offset in (p_grid, q_grid):
            parts = zip(_parts(scale, matrices), _parts(zero, matrices), strict=True)
            grids.append([Grid(*part, offset) for part in parts])
        biases: list[Sequence[Tensor | None]] = []
        for x in (bias, row_bias):
            once = [x, *[None] * (matrices - 1)]
            biases.append(once if x is None or is_summed else _parts(x, matrices))
        each = zip(p.flatten(0, -3), q.flatten(0, -3), *grids, *biases, strict=True)
        products = [_multiply(*parts) for parts in each]
        return reduce(torch.add, products) if is_summed else torch.stack(products).view(*p.shape[:-1], q.shape[-2])
    sums = multiply_codes(p, q.t())
    terms = torch.full((1,), p.shape[1], dtype=torch.int32, device=p.device)
    by_row, by_column = (x.sum(1, dtype=torch.int32) for x in (p, q))
    return combine(sums, p_grid, q_grid, by_row, by_column, terms, bias, row_bias)


def _parts(x: Tensor, matrices: int) -> list[Tensor]:
    """Return what belongs to each matrix of a batch: its own numbers, or those that belong to all."""
    return [x] * matrices if x.numel() == 1 else list(x.reshape(matrices, -1))


def multiply_codes(p: Tensor, q: Tensor) -> Tensor:
    """Multiply two matrices of signed bytes, or of unsigned by signed ones, with sums in 32 bits."""
    # With a single row or column torch takes the strides of a transposed matrix for those of its rows.
    p, q = (x.reshape(-1).view(x.shape) if 1 in x.shape else x for x in (p, q))
    if p.device.type != "cuda":
        return torch._int_mm(p, q)
    # CUDA needs more than 16 rows, and sizes that are multiples of 8.
    (rows, terms), columns = p.shape, q.shape[1]
    more_rows, more_terms, more_columns = max(17 - rows, 0), -terms % 8, -columns % 8
    padded = torch._int_mm(F.pad(p, (0, more_terms, 0, more_rows)), F.pad(q, (0, more_columns, 0, more_terms)))
    return padded[:rows, :columns].contiguous()


def combine(
    sums: Tensor,
    p: Grid,
    q: Grid,
    by_row: Tensor,
    by_column: Tensor,
    terms: Tensor,
    bias: Tensor | None = None,
    row_bias: Tensor | None = None,
    kinds: Tensor | None = None,
) -> Tensor:
    """Return a product of two matrices on their grids from the sums of their codes.

    Args:
        sums: The sums ``S`` (rows, columns).
        p: The grids of the first matrix: one, or one for each of equally many consecutive rows.
        q: The grids of the second matrix: one, or one for each column.
        by_row: The sums of the rows of the first matrix, ``r`` (rows,).
        by_column: The sums of the columns of the second matrix, ``c`` (kinds, columns).
        terms: The number of terms, ``K`` (kinds,).
        bias: Added to each row of the result.
        row_bias: Added to each column of the result.
        kinds: The kinds of the rows of an image, which repeat; by default all rows are of kind 0.
    """
    rows, columns = sums.shape
    kinds = torch.zeros(1, dtype=torch.int32, device=sums.device) if kinds is None else kinds
    p_scale, p_zero = (x.repeat_interleave(rows // max(len(x), 1)).view(-1, 1) for x in (p.scale, p.stored_zero()))
    q_scale, q_zero = q.scale.reshape(-1), q.stored_zero().reshape(-1)
    by_kind = by_column.view(-1, columns).double()
    u = (q_scale.double() * by_kind + q_zero.double() * terms.view(-1, 1).double()).to(q_scale.dtype)
    out = sums.to(p_scale.dtype) * q_scale * p_scale
    out = out + q_zero * (p_scale * by_row.view(-1, 1).to(p_scale.dtype))
    out = out + u[kinds.long()].repeat(rows // kinds.numel(), 1) * p_zero
    out = out + (0.0 if row_bias is None else row_bias.view(-1, 1))
    return out if bias is None else out + bias
