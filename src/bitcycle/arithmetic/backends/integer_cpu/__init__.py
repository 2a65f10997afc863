"""The integer backend of the CPU: products of codes, with the scales and zero points applied to their sums.

Each kind of product has a module, which says what integers can compute and how operands are stored.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from bitcycle.arithmetic.backends.integer_cpu import convolution, linear, matmul
from bitcycle.arithmetic.execution import Execution, ExecutionPlan, Reason, why_simulated
from bitcycle.arithmetic.operands import OperandSpec
from bitcycle.arithmetic.precision import Strength
from bitcycle.arithmetic.products import ConvolutionProduct, LinearProduct, MatmulProduct, Product
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
    """Return which of the three products of a site are computed in integers, and why the others are not."""
    how = settings.execution
    if how is Execution.SIMULATED or not (isinstance(a_bits, int) and isinstance(b_bits, int)):
        return SIMULATED
    if not settings.grid.has_codes:
        return ExecutionPlan.simulated(Reason.FORMAT)
    if a_bits == 0 or b_bits == 0:
        return ExecutionPlan.simulated(Reason.FULL_PRECISION if a_bits == b_bits else Reason.ONE_FULL)
    if strength != 1:
        return ExecutionPlan.simulated(Reason.STRENGTH)
    if max(a_bits, b_bits) > BYTE_BITS:
        return ExecutionPlan.simulated(Reason.WIDTH)
    module = MODULES.get(type(product))
    if module is None:
        return ExecutionPlan.simulated(Reason.KIND)
    reason = why_simulated(how, a, b)
    if reason is None and (a_spec.has_own_values or b_spec.has_own_values):
        reason = Reason.ROUNDED_BEFORE
    if reason is not None:
        return ExecutionPlan.simulated(reason)
    found: ExecutionPlan = module.plan(product, a, b, a_spec, b_spec, settings.grad_output, how)
    return found
