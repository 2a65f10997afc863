"""The three products of a linear layer in integers.

Operand ``a`` (..., in) has one grid or one per row, operand ``b`` (out, in) one grid or one per row. A gradient product
sums over the rows of the other operand: it needs one grid for it, or scales that were folded into grad_output.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.arithmetic.execution import Execution, Means, Reason, why_simulated
from bitcycle.arithmetic.operands import Operand, OperandSpec
from bitcycle.arithmetic.products import LinearProduct
from bitcycle.kernels.integer_sums import column_sums, combine, row_sums

MOST_TERMS = 2**17 - 1
"""A sum of this many products of two signed bytes stays within 32 bits."""
SMALLEST_FASTER = 2**18
"""Products with fewer multiply-accumulates are not faster in integers."""


def means(
    product: LinearProduct, a: Tensor, b: Tensor, a_spec: OperandSpec, b_spec: OperandSpec, fold: bool, how: Execution
) -> Means:
    """Return which of the three products can be computed in integers."""
    reason = why_simulated(how, a, b)
    if reason is None and (a_spec.already_rounded or b_spec.already_rounded):
        reason = Reason.ROUNDED_BEFORE
    if reason is None and how is Execution.FASTEST and a.numel() * len(b) < SMALLEST_FASTER:
        reason = Reason.SMALL
    if reason is not None:
        return Means.simulated(reason)
    if not (_is_per_row(a_spec, a) and _is_per_row(b_spec, b)):
        return Means.simulated(Reason.GRANULARITY)
    return Means(
        None,
        None if b_spec.dims is None or fold else Reason.GRANULARITY,
        None if a_spec.dims is None or fold else Reason.GRANULARITY,
    )


def _is_per_row(spec: OperandSpec, x: Tensor) -> bool:
    return spec.dims is None or tuple(d % x.dim() for d in spec.dims) == (x.dim() - 1,)


def output(product: LinearProduct, a: Operand, b: Operand, bias: Tensor | None) -> Tensor:
    """Return ``a b^T + bias``."""
    codes = _rows(a.codes)
    if codes.shape[1] > MOST_TERMS:  # a scale per row cannot be split with its codes
        return F.linear(a.values(), b.values(), bias)
    sums = multiply_codes(codes, b.codes.t())
    out = combine(
        sums, a.grid(), b.grid(), row_sums(codes), row_sums(b.codes), _terms(codes.shape[1], sums), _dense(bias)
    )
    return out.view(*a.codes.shape[:-1], len(b.codes))


def input_gradient(
    product: LinearProduct, e: Operand, b: Operand, a_shape: torch.Size, row_bias: Tensor | None = None
) -> Tensor:
    """Return ``e b``, plus a number for each row if given."""
    codes = _rows(e.codes)
    if codes.shape[1] > MOST_TERMS:
        out = product.input_gradient(e.values(), b.values(), a_shape)
        return out if row_bias is None else out + row_bias.view(*a_shape[:-1], 1)
    sums = multiply_codes(codes, b.codes)
    terms = _terms(codes.shape[1], sums)
    out = combine(sums, e.grid(), b.grid(), row_sums(codes), column_sums(b.codes), terms, None, _dense(row_bias))
    return out.view(a_shape)


def weight_gradient(
    product: LinearProduct, e: Operand, a: Operand, b_shape: torch.Size, row_bias: Tensor | None = None
) -> Tensor:
    """Return ``e^T a``, plus a number for each row if given."""
    e_codes, a_codes = _rows(e.codes), _rows(a.codes)
    gradient = None
    for e_part, a_part in zip(e_codes.split(MOST_TERMS), a_codes.split(MOST_TERMS), strict=True):
        sums = multiply_codes(e_part.t(), a_part)
        terms = _terms(len(a_part), sums)
        part = combine(
            sums, e.grid(), a.grid(), column_sums(e_part), column_sums(a_part), terms, None, _dense(row_bias)
        )
        gradient, row_bias = part if gradient is None else gradient + part, None
    assert gradient is not None
    return gradient


def bias_gradient(product: LinearProduct, e: Operand) -> Tensor:
    """Return the sum of ``e`` over its rows."""
    codes, grid = _rows(e.codes), e.grid()
    totals = torch.stack([column_sums(part) for part in codes.split(MOST_TERMS)]).sum(0, dtype=torch.float64)
    return (totals * grid.scale + len(codes) * grid.stored_zero()).to(e.dtype)


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


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])


def _terms(count: int, like: Tensor) -> Tensor:
    return torch.full((1,), count, dtype=torch.int32, device=like.device)


def _dense(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.detach().contiguous()
