"""Quantised products as autograd functions.

Forward: both operands are rounded to nearest at the site's bits, then multiplied. Backward: grad_output is rounded once
to the backward bits and serves the input gradient and the weight gradient. Rounding has a straight-through gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bitcycle.arithmetic.observers import computing, current_observers, report_product
from bitcycle.arithmetic.products import Product
from bitcycle.arithmetic.site import BACKWARD, DRAWS, KEY, STEP, Site, read
from bitcycle.kernels.noise import rank_key, uniform
from bitcycle.kernels.rounding import Dims, Encoded, Width, decode, encode, round_to_grid


@dataclass(frozen=True)
class OperandSpec:
    """How an operand is put on its grid.

    Args:
        dims: The dimensions that share one grid. ``None`` is one grid for the whole tensor.
        already_rounded: The operand is on its grid, and is used as it is.
    """

    dims: Dims = None
    already_rounded: bool = False


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
        return _multiply(site, product, a, b, bias, bits, a_spec, b_spec)
    with computing(site):
        _report_rounding(site, "a", a, a_spec, bits)
        _report_rounding(site, "b", b, b_spec, bits)
        out = _multiply(site, product, a, b, bias, bits, a_spec, b_spec)
    return report_product(site, product, a, b, out)


def _multiply(
    site: Site,
    product: Product,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    bits: Width,
    a_spec: OperandSpec,
    b_spec: OperandSpec,
) -> Tensor:
    if not torch.is_grad_enabled():
        return _forward(product, _round(a, bits, a_spec), _round(b, bits, b_spec), bias)
    out = _QuantizedProduct.apply(a, b, bias, site.control, bits, product, a_spec, b_spec, site.recipe.gradients)
    assert isinstance(out, Tensor)
    return out


def round_operand(site: Site, x: Tensor, dims: Dims, training: bool, operand: str) -> Tensor:
    """Round an operand to the site's bits, with a straight-through gradient. Observers see it by its name."""
    bits = site.width(training)
    _report_rounding(site, operand, x, OperandSpec(dims), bits)
    out = _RoundOperand.apply(x, bits, dims)
    assert isinstance(out, Tensor)
    return out


def round_grad_output(site: Site, output: Tensor) -> Tensor:
    """Return a copy of ``output`` whose gradient is rounded to the site's backward bits on its way back."""
    out = _RoundGradOutput.apply(output, site.control, site.recipe.gradients)
    assert isinstance(out, Tensor)
    return out


class _QuantizedProduct(torch.autograd.Function):
    """A product that saves its operands for backward as codes: one byte per element for up to 8 bits."""

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        bias: Tensor | None,
        control: Tensor,
        bits: Width,
        product: Product,
        a_spec: OperandSpec,
        b_spec: OperandSpec,
        rounding: str,
    ) -> Tensor:
        a_needs_grad, b_needs_grad = ctx.needs_input_grad[:2]
        encoded_a = _encode(a, bits, a_spec, save=b_needs_grad)
        encoded_b = _encode(b, bits, b_spec, save=a_needs_grad)
        out = _forward(product, encoded_a.values, encoded_b.values, bias)
        nothing = (None,) * 3
        ctx.save_for_backward(
            *(encoded_a[1:] if b_needs_grad else nothing), *(encoded_b[1:] if a_needs_grad else nothing)
        )
        ctx.product, ctx.rounding, ctx.control = product, rounding, control
        ctx.a_shape, ctx.a_dtype, ctx.b_shape, ctx.b_dtype = a.shape, a.dtype, b.shape, b.dtype
        return out

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_second_order()
        grad_output = _rounded_grad_output(grad_output, ctx.control, ctx.rounding)
        codes_a, scale_a, zero_a, codes_b, scale_b, zero_b = ctx.saved_tensors
        a_needs_grad, b_needs_grad, bias_needs_grad = ctx.needs_input_grad[:3]
        grad_a = grad_b = grad_bias = None
        if a_needs_grad:
            b = decode(codes_b, scale_b, zero_b, ctx.b_dtype).to(grad_output.dtype)
            grad_a = ctx.product.input_gradient(grad_output, b, ctx.a_shape).to(ctx.a_dtype)
        if b_needs_grad:
            a = decode(codes_a, scale_a, zero_a, ctx.a_dtype).to(grad_output.dtype)
            grad_b = ctx.product.weight_gradient(grad_output, a, ctx.b_shape).to(ctx.b_dtype)
        if bias_needs_grad:
            grad_bias = ctx.product.bias_gradient(grad_output)
        return grad_a, grad_b, grad_bias, None, None, None, None, None, None


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
    def forward(ctx: Any, x: Tensor, control: Tensor, rounding: str) -> Tensor:
        ctx.control, ctx.rounding = control, rounding
        return x.clone()  # autograd forbids later operations to change a view in place

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        _refuse_second_order()
        return _rounded_grad_output(grad_output, ctx.control, ctx.rounding), None, None


def _forward(product: Product, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    device = a.device.type
    if a.dtype is not torch.float64 and torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        a, b, bias = a.to(dtype), b.to(dtype), bias if bias is None else bias.to(dtype)
    return product.output(a, b, bias)


def _round(x: Tensor, bits: Width, spec: OperandSpec) -> Tensor:
    return x if spec.already_rounded else round_to_grid(x, bits, spec.dims)


def _encode(x: Tensor, bits: Width, spec: OperandSpec, save: bool) -> Encoded:
    if spec.already_rounded:
        return Encoded(x, x, x, x)
    if save:
        return encode(x, bits, spec.dims)
    values = round_to_grid(x, bits, spec.dims)
    return Encoded(values, values, values, values)


def _rounded_grad_output(grad_output: Tensor, control: Tensor, rounding: str) -> Tensor:
    """Round grad_output to the backward bits, with one grid for the tensor."""
    bits = read(control, BACKWARD)
    if isinstance(bits, int) and bits == 0:
        return grad_output
    noise = None if rounding == "nearest" else _next_noise(grad_output, control)
    return round_to_grid(grad_output, bits, None, noise)


def _next_noise(grad_output: Tensor, control: Tensor) -> Tensor:
    return _draw_op(grad_output, control) if torch.compiler.is_compiling() else _draw(grad_output, control)


def _draw(grad_output: Tensor, control: Tensor) -> Tensor:
    numbers = control.tolist()
    control[DRAWS] += 1
    return uniform(grad_output, numbers[KEY], numbers[STEP], numbers[DRAWS], *rank_key())


@torch.library.custom_op("bitcycle::draw_noise", mutates_args=("control",))
def _draw_op(grad_output: Tensor, control: Tensor) -> Tensor:
    """Draw the same noise as one opaque operation of a compiled graph."""
    return _draw(grad_output, control)


@_draw_op.register_fake
def _(grad_output: Tensor, control: Tensor) -> Tensor:
    return torch.empty_like(grad_output, dtype=torch.int16)


def _refuse_second_order() -> None:
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError(
            "gradients of gradients (create_graph=True) are not defined through a quantised product: "
            "set full precision first, bc.set_bits(model, forward=None, backward=None)"
        )


def _report_rounding(site: Site, operand: str, x: Tensor, spec: OperandSpec, bits: Width) -> None:
    observers = current_observers()
    if spec.already_rounded or not observers:
        return
    with torch.no_grad():
        after = _round(x, bits, spec)
    for observer in observers:
        observer.rounded(site, operand, x, after)
