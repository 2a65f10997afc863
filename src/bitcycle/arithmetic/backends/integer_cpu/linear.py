"""The three products of a linear layer in integers.

Operand ``a`` (..., in) has one grid or one per row, operand ``b`` (out, in) one grid or one per row. A gradient product
sums over the rows of the other operand: it needs one grid for it, or scales that grad_output has absorbed.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.arithmetic.backends import simulated
from bitcycle.arithmetic.execution import Execution, ExecutionPlan, Reason
from bitcycle.arithmetic.operands import Codes, Operand, OperandSpec, put_on_grid
from bitcycle.arithmetic.products import LinearProduct
from bitcycle.arithmetic.recipe import GradOutput
from bitcycle.grids import GridFamily
from bitcycle.kernels.integer_sums import column_sums, combine, row_sums
from bitcycle.kernels.rounding import Dims, Noise, encode_in_bytes

MAX_TERMS = 2**17 - 1
"""A sum of this many products of two signed bytes stays within 32 bits."""
MIN_MACS = 2**18
"""Products with fewer multiply-accumulates are not faster in integers."""


def plan(
    product: LinearProduct,
    a: Tensor,
    b: Tensor,
    a_spec: OperandSpec,
    b_spec: OperandSpec,
    grad_output: GradOutput,
    how: Execution,
) -> ExecutionPlan:
    """Return which of the three products can be computed in integers."""
    if how is Execution.FASTEST and a.numel() * len(b) < MIN_MACS:
        return ExecutionPlan.simulated(Reason.SMALL)
    if not (_is_per_row(a_spec, a) and _is_per_row(b_spec, b)):
        return ExecutionPlan.simulated(Reason.GRANULARITY)
    twice = grad_output == "row and column"
    is_one = a_spec.dims is None or a.dim() == 1  # one grid for ``a``
    return ExecutionPlan(
        None,
        None if b_spec.dims is None or twice else Reason.GRANULARITY,
        None if (is_one and grad_output != "row") or twice else Reason.GRANULARITY,
    )


def _is_per_row(spec: OperandSpec, x: Tensor) -> bool:
    return spec.dims is None or tuple(d % x.dim() for d in spec.dims) == (x.dim() - 1,)


def encode(x: Tensor, bits: int, dims: Dims, grid: GridFamily, noise: Noise = None) -> Operand:
    """Return the codes of a matrix, around 0 in signed bytes, or its values if some have no grid."""
    offset = 2 ** (bits - 1)
    encoded = encode_in_bytes(x.float(), bits, dims, noise, offset, symmetric=grid.symmetric)
    if encoded is None:
        return put_on_grid(x, bits, OperandSpec(dims), grid, noise=noise)
    return Codes(encoded.codes, encoded.scale, encoded.zero, bits, grid.symmetric, offset, x.dtype)


encode_weight = encode


def output(product: LinearProduct, a: Codes, b: Codes, bias: Tensor | None) -> Tensor:
    """Return ``a b^T + bias``."""
    codes = _rows(a.stored)
    if codes.shape[1] > MAX_TERMS:  # a scale per row cannot be split with its codes
        return simulated.output(product, a, b, bias)
    sums = multiply_codes(codes, b.stored.t())
    terms, bias = _terms(codes.shape[1], sums), None if bias is None else bias.detach().float().contiguous()
    out = combine(sums, a.grid(), b.grid(), row_sums(codes), row_sums(b.stored), terms, bias)
    return out.view(*a.stored.shape[:-1], len(b.stored)).to(a.dtype)


def input_gradient(
    product: LinearProduct, e: Codes, b: Codes, a_shape: torch.Size, added: Tensor | None = None
) -> Tensor:
    """Return ``e b``, plus a number for each row if given."""
    codes = _rows(e.stored)
    if codes.shape[1] > MAX_TERMS:
        return simulated.input_gradient(product, e, b, a_shape, added)
    sums = multiply_codes(codes, b.stored)
    terms = _terms(codes.shape[1], sums)
    row_bias = None if added is None else added.flatten()
    return combine(sums, e.grid(), b.grid(), row_sums(codes), column_sums(b.stored), terms, row_bias=row_bias).view(
        a_shape
    )


def weight_gradient(
    product: LinearProduct, e: Codes, a: Codes, b_shape: torch.Size, added: Tensor | None = None
) -> Tensor:
    """Return ``e^T a``, plus a number for each row if given."""
    e_codes, a_codes = _rows(e.stored), _rows(a.stored)
    gradient, row_bias = None, None if added is None else added.flatten()
    for e_part, a_part in zip(e_codes.split(MAX_TERMS), a_codes.split(MAX_TERMS), strict=True):
        sums = multiply_codes(e_part.t(), a_part)
        terms = _terms(len(a_part), sums)
        part = combine(sums, e.grid(), a.grid(), column_sums(e_part), column_sums(a_part), terms, row_bias=row_bias)
        gradient, row_bias = part if gradient is None else gradient + part, None
    assert gradient is not None
    return gradient


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
