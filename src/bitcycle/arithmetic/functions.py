"""What a site does to tensors: multiply them, or round an operand or a gradient on its way.

Rounding has a straight-through gradient. Observers see every operand and every product.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitcycle.arithmetic.grad_output import refuse_second_order, rounded_grad_output
from bitcycle.arithmetic.observers import computing, current_observers, report_product
from bitcycle.arithmetic.operands import OperandSpec
from bitcycle.arithmetic.products import Product
from bitcycle.arithmetic.quantized_product import quantized_product
from bitcycle.arithmetic.site import Site
from bitcycle.kernels.rounding import Dims, Width, round_to_grid


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
    bits = site.width(training)
    if not current_observers():
        return quantized_product(site, product, a, b, bias, bits, a_spec, b_spec)
    with computing(site):
        _report_rounding(site, "a", a, a_spec, bits)
        _report_rounding(site, "b", b, b_spec, bits)
        out = quantized_product(site, product, a, b, bias, bits, a_spec, b_spec)
    return report_product(site, product, a, b, out)


def round_operand(site: Site, x: Tensor, dims: Dims, training: bool, operand: str) -> Tensor:
    """Round an operand to the site's bits, with a straight-through gradient. Observers see it by its name."""
    bits = site.width(training)
    _report_rounding(site, operand, x, OperandSpec(dims), bits)
    out = _RoundOperand.apply(x, bits, dims)
    assert isinstance(out, Tensor)
    return out


def round_grad_output(site: Site, output: Tensor) -> Tensor:
    """Return a copy of ``output`` whose gradient is rounded to the site's backward bits on its way back."""
    out = _RoundGradOutput.apply(output, site.control, site.settings.stochastic)
    assert isinstance(out, Tensor)
    return out


class _RoundOperand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: Width, dims: Dims) -> Tensor:
        values = round_to_grid(x, bits, dims)
        return values.view_as(values) if values is x else values

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        return grad_output, None, None


class _RoundGradOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, control: Tensor, stochastic: bool) -> Tensor:
        ctx.control, ctx.stochastic = control, stochastic
        return x.clone()  # autograd forbids later operations to change a view in place

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        refuse_second_order()
        return rounded_grad_output(grad_output, ctx.control, ctx.stochastic), None, None


def _report_rounding(site: Site, operand: str, x: Tensor, spec: OperandSpec, bits: Width) -> None:
    observers = current_observers()
    if spec.already_rounded or not observers:
        return
    with torch.no_grad():
        after = round_to_grid(x, bits, spec.dims)
    for observer in observers:
        observer.rounded(site, operand, x, after)
