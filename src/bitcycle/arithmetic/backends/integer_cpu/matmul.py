"""The three products of two batches of activations in integers.

Each product is ``p q^T`` over the last two dimensions of two operands that may be transposed. An operand has one grid
for each vector along its last dimension. A product that sums along another dimension needs one grid, or scales that
grad_output has absorbed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bitcycle.arithmetic.backends.integer_cpu.linear import encode, is_per_row
from bitcycle.arithmetic.execution import Execution, ExecutionPlan, Reason
from bitcycle.arithmetic.operands import Codes
from bitcycle.arithmetic.products import MatmulProduct
from bitcycle.arithmetic.recipe import GradOutput
from bitcycle.kernels.integer_sums import MAX_TERMS, multiply
from bitcycle.kernels.rounding import Dims

MIN_MACS = 2**20
"""Products with fewer multiply-accumulates are not faster in integers."""

encode_weight = encode


def plan(
    product: MatmulProduct,
    a: torch.Size,
    b: torch.Size,
    a_dims: Dims,
    b_dims: Dims,
    grad_output: GradOutput,
    how: Execution,
) -> ExecutionPlan:
    """Return which of the three products can be computed in integers."""
    columns = b[-2] if product.transpose_b else b[-1]
    if how is Execution.FASTEST and a.numel() * columns < MIN_MACS:
        return ExecutionPlan.simulated(Reason.SMALL)
    if a[:-2] != b[:-2] or not 2 <= len(a) <= 4 or max(*a[-2:], columns) > MAX_TERMS:
        return ExecutionPlan.simulated(Reason.GEOMETRY)
    if not (is_per_row(a_dims, a) and is_per_row(b_dims, b)):
        return ExecutionPlan.simulated(Reason.GRANULARITY)
    twice, once_per_row = grad_output == "row and column", grad_output == "row"
    varies = {True: None if twice else Reason.GRANULARITY, False: None}  # by whether scales vary along the sum
    return ExecutionPlan(
        Reason.GRANULARITY if b_dims is not None and not product.transpose_b else None,
        varies[b_dims is not None and product.transpose_b],
        varies[a_dims is not None or once_per_row],
    )


def output(product: MatmulProduct, a: Codes, b: Codes, bias: Tensor | None) -> Tensor:
    """Return ``a b``, or ``a b^T``."""
    q = b.stored if product.transpose_b else b.stored.mT
    return multiply(a.stored, q, a.grid(), b.grid(), dtype=a.dtype)


def input_gradient(
    product: MatmulProduct, e: Codes, b: Codes, a_shape: torch.Size, added: Tensor | None = None
) -> Tensor:
    """Return ``e b^T``, or ``e b``, plus a number for each row if given."""
    q = b.stored.mT if product.transpose_b else b.stored
    return multiply(e.stored, q, e.grid(), b.grid(), None, None if added is None else added.contiguous(), e.dtype)


def weight_gradient(
    product: MatmulProduct, e: Codes, a: Codes, b_shape: torch.Size, added: Tensor | None = None
) -> Tensor:
    """Return ``a^T e``, or ``e^T a``, plus a number for each column, or for each row, if given."""
    added = None if added is None else added.contiguous()
    if product.transpose_b:
        return multiply(e.stored.mT, a.stored.mT, e.grid(), a.grid(), None, added, e.dtype)
    return multiply(a.stored.mT, e.stored.mT, a.grid(), e.grid(), added, None, e.dtype)
