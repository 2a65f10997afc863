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

from typing import NamedTuple

import torch
from torch import Tensor

from bitcycle.kernels import native


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


def row_sums(codes: Tensor) -> Tensor:
    """Return the sum of each row of a matrix of signed or unsigned codes, in 32 bits."""
    return _sums(codes, by_row=True)


def column_sums(codes: Tensor) -> Tensor:
    """Return the sum of each column of a matrix of signed or unsigned codes, in 32 bits."""
    return _sums(codes, by_row=False)


def _sums(codes: Tensor, by_row: bool) -> Tensor:
    rows, columns = codes.shape
    run = native.kernel("sum_codes", (codes, native.BYTES))
    if run is None:
        return codes.sum(1 if by_row else 0, dtype=torch.int32)
    out = codes.new_empty(rows if by_row else columns, dtype=torch.int32)
    at = out.data_ptr()
    is_unsigned = codes.dtype is torch.uint8
    to_rows, to_columns = (at, 0) if by_row else (0, at)
    run(codes.data_ptr(), rows, columns, is_unsigned, to_rows, to_columns, native.threads(codes.numel()))
    return out


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
    pixels: int = 0,
) -> Tensor:
    """Return a product of two matrices on their grids from the sums of their codes.

    Args:
        sums: The sums ``S`` (rows, columns), in 32-bit integers or as whole numbers in single precision. Their memory
            may be used for the result.
        p: The grids of the first matrix: one, or one for each of equally many consecutive rows.
        q: The grids of the second matrix: one, or one for each column.
        by_row: The sums of the rows of the first matrix, ``r`` (rows,).
        by_column: The sums of the columns of the second matrix, ``c`` (kinds, columns).
        terms: The number of terms, ``K`` (kinds,).
        bias: Added to each row of the result.
        row_bias: Added to each column of the result.
        kinds: The kinds of the rows of an image, which repeat; by default all rows are of kind 0.
        pixels: If given, rows are pixels of images of this size, and the result is (images, columns, pixels).
    """
    kinds = torch.zeros(1, dtype=torch.int32, device=sums.device) if kinds is None else kinds
    floats = [(x, native.FLOAT32) for x in (p.scale, p.zero, q.scale, q.zero, bias, row_bias)]
    integers = [(x, native.INT32) for x in (by_row, by_column, terms, kinds)]
    run = native.kernel("combine", (sums, native.WORDS), *floats, *integers)
    if run is None:
        return _combine(sums, p, q, by_row, by_column, terms, bias, row_bias, kinds, pixels)
    rows, columns = sums.shape
    out = sums.new_empty(rows // pixels, columns, pixels, dtype=torch.float32) if pixels else sums
    run(
        sums.data_ptr(), rows, columns, kinds.numel(), kinds.data_ptr(), terms.numel(),
        terms.data_ptr(), by_row.data_ptr(), by_column.data_ptr(),
        p.scale.data_ptr(), p.zero.data_ptr(), p.scale.numel(), p.offset,
        q.scale.data_ptr(), q.zero.data_ptr(), q.scale.numel(), q.offset,
        0 if bias is None else bias.data_ptr(), 0 if row_bias is None else row_bias.data_ptr(),
        out.data_ptr(), pixels, sums.dtype is torch.float32, native.threads(sums.numel()),
    )  # fmt: skip
    return out.view(torch.float32)


def _combine(
    sums: Tensor,
    p: Grid,
    q: Grid,
    by_row: Tensor,
    by_column: Tensor,
    terms: Tensor,
    bias: Tensor | None,
    row_bias: Tensor | None,
    kinds: Tensor,
    pixels: int,
) -> Tensor:
    """Compute :func:`combine` by torch operations, which the kernel follows one by one."""
    rows, columns = sums.shape
    p_scale, p_zero = (x.repeat_interleave(rows // max(len(x), 1)).view(-1, 1) for x in (p.scale, p.stored_zero()))
    q_scale, q_zero = q.scale.reshape(-1), q.stored_zero().reshape(-1)
    by_kind = by_column.view(-1, columns).double()
    u = (q_scale.double() * by_kind + q_zero.double() * terms.view(-1, 1).double()).to(q_scale.dtype)
    out = sums.to(p_scale.dtype) * q_scale * p_scale
    out = out + q_zero * (p_scale * by_row.view(-1, 1).to(p_scale.dtype))
    out = out + u[kinds.long()].repeat(rows // kinds.numel(), 1) * p_zero
    out = out + (0.0 if row_bias is None else row_bias.view(-1, 1))
    out = out if bias is None else out + bias
    return out.view(-1, pixels, columns).transpose(1, 2).contiguous() if pixels else out
