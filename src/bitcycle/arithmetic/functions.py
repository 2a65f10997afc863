"""What a site does to tensors: multiply them, or round an operand or a gradient on its way.

Rounding has a straight-through gradient. Observers see every operand and every product.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitcycle.arithmetic.compiled_product import compiled_product, is_for_integers
from bitcycle.arithmetic.execution import Execution, ExecutionPlan, Reason, is_autocast_enabled
from bitcycle.arithmetic.export_rounding import ExportRounding, current_export_rounding
from bitcycle.arithmetic.grad_output import refuse_second_order, rounded_grad_output
from bitcycle.arithmetic.observers import OBSERVERS, computing, current_observers, report_product
from bitcycle.arithmetic.operands import OperandSpec, put_on_grid
from bitcycle.arithmetic.precision import Precision, Role, Strength, role_of
from bitcycle.arithmetic.product_function import quantized_product
from bitcycle.arithmetic.products import Product
from bitcycle.arithmetic.site import Settings, Site, check_export
from bitcycle.grids import GridFamily
from bitcycle.grids.family import LAST
from bitcycle.kernels.float_rounding import Blocks
from bitcycle.kernels.rounding import Width


def multiply(
    site: Site,
    product: Product,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    *,
    a_spec: OperandSpec,
    b_spec: OperandSpec,
    training: bool,
) -> Tensor:
    """Compute a site's product of ``a`` and ``b`` at its current bits, with a quantised backward."""
    a_spec = a_spec if a_spec.role else a_spec._replace(role=role_of(a))
    b_spec = b_spec if b_spec.role else b_spec._replace(role=role_of(b))
    if a.dtype is not torch.float64 and is_autocast_enabled(a):  # operands are rounded from the values of autocast
        dtype = torch.get_autocast_dtype(a.device.type)
        a, b, bias = a.to(dtype), b.to(dtype), None if bias is None else bias.to(dtype)
    if torch.compiler.is_compiling():
        exported = current_export_rounding()
        if exported is not None:
            check_export(training)
            a, a_spec = _with_zeros(exported, site, "a", a, a_spec)
            b, b_spec = _with_zeros(exported, site, "b", b, b_spec)
            return exported.multiply(site, product, a, b, bias, (a_spec, b_spec))
        if is_for_integers(site.settings, product, a, b, (a_spec, b_spec)):
            return compiled_product(site, product, a, b, bias, (a_spec, b_spec), training)
        return quantized_product(site, product, a, b, bias, site.precision(training), a_spec, b_spec)
    precision = site.precision(training)
    if not OBSERVERS.get():
        return quantized_product(site, product, a, b, bias, precision, a_spec, b_spec)
    with computing(site):
        along = (LAST, LAST) if site.settings.grid.block is None else product.summed(a.dim()).output
        _report_rounding(site, "a", a, a_spec, precision, along[0])
        _report_rounding(site, "b", b, b_spec, precision, along[1])
        out = quantized_product(site, product, a, b, bias, precision, a_spec, b_spec)
    assert a_spec.role is not None
    assert b_spec.role is not None
    return report_product(site, product, a, b, out, (a_spec.role, b_spec.role))


def round_operand(site: Site, x: Tensor, spec: OperandSpec, training: bool, operand: str) -> Tensor:
    """Round an operand to the site's bits, with a straight-through gradient. Observers see it by its name.

    Args:
        site: The site.
        x: The operand.
        spec: How it is put on its grid.
        training: Whether the bits are those of training.
        operand: The name of the operand for observers.
    """
    precision = site.precision(training)
    exported = current_export_rounding()
    if exported is not None:
        return exported.round(site, operand, x, spec._replace(role=role_of_operand(x, spec)))
    if not torch.compiler.is_compiling():  # if a product of the site follows, it says how it is computed
        asked = site.execution is not Execution.SIMULATED
        site.plan = ExecutionPlan.simulated(Reason.WHOLE if asked else Reason.NOT_ASKED)
    _report_rounding(site, operand, x, spec, precision)
    out = _RoundOperand.apply(
        x, precision.width(role_of_operand(x, spec)), precision.strength, spec, site.settings.grid
    )
    assert isinstance(out, Tensor)
    return out


def round_grad_output(site: Site, output: Tensor) -> Tensor:
    """Return a copy of ``output`` whose gradient is rounded to the site's backward bits on its way back."""
    out = _RoundGradOutput.apply(output, site.control, site.settings)
    assert isinstance(out, Tensor)
    return out


class _RoundOperand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: Width, strength: Strength, spec: OperandSpec, grid: GridFamily) -> Tensor:
        values = put_on_grid(x, bits, spec, grid, strength=strength).values()
        return values.view_as(values) if values is x else values

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None, None]:
        return grad_output, None, None, None, None


class _RoundGradOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, control: Tensor, settings: Settings) -> Tensor:
        ctx.control, ctx.settings = control, settings
        return x.clone()  # autograd forbids later operations to change a view in place

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        refuse_second_order()
        return rounded_grad_output(grad_output, ctx.control, ctx.settings), None, None


def _with_zeros(
    exported: ExportRounding, site: Site, operand: str, x: Tensor, spec: OperandSpec
) -> tuple[Tensor, OperandSpec]:
    """Round an operand of an export here if its zeros stay zero."""
    if not spec.keeps_zeros:
        return x, spec
    return torch.where(x == 0, x, exported.round(site, operand, x, spec)), spec._replace(already_rounded=True)


def role_of_operand(x: Tensor, spec: OperandSpec) -> Role:
    """Return what an operand is, as its specification says or else from the tensor."""
    return role_of(x) if spec.role is None else spec.role


def _report_rounding(
    site: Site, operand: str, x: Tensor, spec: OperandSpec, precision: Precision, along: Blocks = LAST
) -> None:
    observers = current_observers()
    if spec.already_rounded or not observers:
        return
    with torch.no_grad():
        width, grid = precision.width(role_of_operand(x, spec)), site.settings.grid
        after = put_on_grid(x, width, spec, grid, strength=precision.strength, along=along).values()
    for observer in observers:
        observer.rounded(site, operand, x, after)
