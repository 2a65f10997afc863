"""The three products of a linear layer in integers.

Operand ``a`` (..., in) has one grid or one per row, operand ``b`` (out, in) one grid or one per row. A gradient product
sums over the rows of the other operand: it needs one grid for it, or scales that grad_output has absorbed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bitcycle.arithmetic.backends import simulated
from bitcycle.arithmetic.execution import Execution, ExecutionPlan, Reason
from bitcycle.arithmetic.operands import Codes, Operand, OperandSpec, put_on_grid
from bitcycle.arithmetic.products import LinearProduct
from bitcycle.arithmetic.recipe import GradOutput
from bitcycle.grids import GridFamily
from bitcycle.kernels.integer_sums import MAX_TERMS, multiply
from bitcycle.kernels.rounding import Dims, Noise, encode_in_bytes

MIN_MACS = 2**18
"""Products with fewer multiply-accumulates are not faster in integers."""


def plan(
    product: LinearProduct,
    a: torch.Size,
    b: torch.Size,
    a_dims: Dims,
    b_dims: Dims,
    grad_output: GradOutput,
    how: Execution,
) -> ExecutionPlan:
    """Return which of the three products can be computed in integers."""
    if how is Execution.FASTEST and a.numel() * b[0] < MIN_MACS:
        return ExecutionPlan.simulated(Reason.SMALL)
    if not (is_per_row(a_dims, a) and is_per_row(b_dims, b)):
        return ExecutionPlan.simulated(Reason.GRANULARITY)
    twice = grad_output == "row and column"
    is_one = a_dims is None or len(a) == 1  # one grid for ``a``
    return ExecutionPlan(
        None,
        None if b_dims is None or twice else Reason.GRANULARITY,
        None if (is_one and grad_output != "row") or twice else Reason.GRANULARITY,
    )


def is_per_row(dims: Dims, shape: torch.Size) -> bool:
    """Return whether an operand has one grid, or one for each vector along its last dimension."""
    return dims is None or tuple(d % len(shape) for d in dims) == (len(shape) - 1,)


def encode(
    x: Tensor, bits: int, spec: OperandSpec, grid: GridFamily, noise: Noise = None, factors: Tensor | None = None
) -> Operand:
    """Return the codes of a matrix, around 0 in signed bytes, or its values if some have no grid."""
    offset = 2 ** (bits - 1)
    encoded = encode_in_bytes(
        x, bits, spec.dims, noise, offset, symmetric=grid.symmetric, with_zero=spec.with_zero, factors=factors
    )
    if encoded is None:
        return put_on_grid(x, bits, spec, grid, noise=noise, factors=factors)
    origin = offset if grid.symmetric else 0
    return Codes(encoded.codes, encoded.scale, encoded.zero, bits, origin, offset, x.dtype)


encode_weight = encode


def output(product: LinearProduct, a: Codes, b: Codes, bias: Tensor | None) -> Tensor:
    """Return ``a b^T + bias``."""
    rows = a.stored.reshape(-1, a.stored.shape[-1])
    if rows.shape[1] > MAX_TERMS:  # a scale per row cannot be split with its codes
        return simulated.output(product, a, b, bias)
    bias = None if bias is None else bias.detach().float().contiguous()
    out = multiply(rows, b.stored, a.grid(), b.grid(), bias, dtype=a.dtype)
    return out.view(*a.stored.shape[:-1], len(b.stored))


def input_gradient(
    product: LinearProduct, e: Codes, b: Codes, a_shape: torch.Size, added: Tensor | None = None
) -> Tensor:
    """Return ``e b``, plus a number for each row if given."""
    rows = e.stored.reshape(-1, e.stored.shape[-1])
    if rows.shape[1] > MAX_TERMS:
        return simulated.input_gradient(product, e, b, a_shape, added)
    return multiply(rows, b.stored.t(), e.grid(), b.grid(), None, added, e.dtype).view(a_shape)


def weight_gradient(
    product: LinearProduct, e: Codes, a: Codes, b_shape: torch.Size, added: Tensor | None = None
) -> Tensor:
    """Return ``e^T a``, plus a number for each row if given. Blocks of rows are a batch of products."""
    if e.stored.dim() == 3:
        return multiply(e.stored.mT, a.stored.mT, e.grid(), a.grid(), None, added, e.dtype, is_summed=True)
    gradient = None
    for e_rows, a_rows in zip(_rows(e.stored).split(MAX_TERMS), _rows(a.stored).split(MAX_TERMS), strict=True):
        part = multiply(e_rows.t(), a_rows.t(), e.grid(), a.grid(), None, added if gradient is None else None, e.dtype)
        gradient = part if gradient is None else gradient + part
    assert gradient is not None
    return gradient


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])
