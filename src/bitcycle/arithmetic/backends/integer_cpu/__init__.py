"""The integer backend of the CPU: products of codes, with the scales and zero points applied to their sums.

Each kind of product has a module, which says what integers can compute and how operands are stored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from bitcycle.arithmetic.backends.integer_cpu import convolution, linear, matmul
from bitcycle.arithmetic.execution import Execution, ExecutionPlan, Reason
from bitcycle.arithmetic.operands import OperandSpec
from bitcycle.arithmetic.precision import Strength
from bitcycle.arithmetic.products import ConvolutionProduct, LinearProduct, MatmulProduct, Product
from bitcycle.arithmetic.recipe import GradOutput
from bitcycle.arithmetic.site import Settings
from bitcycle.kernels.rounding import BYTE_BITS, Width

MODULES: dict[type[Product], Any] = {
    LinearProduct: linear,
    ConvolutionProduct: convolution,
    MatmulProduct: matmul,
}

SIMULATED = ExecutionPlan.simulated(Reason.NOT_ASKED)


def plan(
    settings: Settings,
    product: Product,
    a: Tensor,
    b: Tensor,
    a_bits: Width,
    b_bits: Width,
    strength: Strength,
    a_spec: OperandSpec,
    b_spec: OperandSpec,
) -> ExecutionPlan:
    """Return which of the three products of a site that may use integers do so, and why the others do not."""
    if not settings.grid.has_codes:
        return ExecutionPlan.simulated(Reason.FORMAT)
    if a_bits == 0 or b_bits == 0:
        return ExecutionPlan.simulated(Reason.FULL_PRECISION if a_bits == b_bits else Reason.ONE_FULL)
    if strength != 1:
        return ExecutionPlan.simulated(Reason.STRENGTH)
    if max(a_bits, b_bits) > BYTE_BITS:
        return ExecutionPlan.simulated(Reason.WIDTH)
    if type(product) not in MODULES:
        return ExecutionPlan.simulated(Reason.KIND)
    if torch.float64 in (a.dtype, b.dtype):
        return ExecutionPlan.simulated(Reason.DTYPE)
    how = settings.execution
    return _plan(product, a.shape, b.shape, a_spec, b_spec, settings.grad_output, how, a.is_cpu)


@lru_cache(maxsize=4096)
def _plan(
    product: Product,
    a: torch.Size,
    b: torch.Size,
    a_spec: OperandSpec,
    b_spec: OperandSpec,
    grad_output: GradOutput,
    how: Execution,
    on_cpu: bool,
) -> ExecutionPlan:
    """Decide it by all that stays the same while a model trains."""
    module = MODULES[type(product)]
    if a.numel() == 0 or b.numel() == 0:
        return ExecutionPlan.simulated(Reason.EMPTY)
    if how is Execution.FASTEST and not on_cpu:
        return ExecutionPlan.simulated(Reason.DEVICE)
    if not on_cpu and module is convolution:
        return ExecutionPlan.simulated(Reason.GEOMETRY)
    if a_spec.has_own_values or b_spec.has_own_values:
        return ExecutionPlan.simulated(Reason.ROUNDED_BEFORE)
    found: ExecutionPlan = module.plan(product, a, b, a_spec.dims, b_spec.dims, grad_output, how)
    return found
