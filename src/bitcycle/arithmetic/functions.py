"""Quantised products as autograd functions.

Forward: both operands on the site's bits, nearest; then the product. Backward: the error at the output is put on the
backward bits once, and serves the input gradient and the weight gradient. Gradients pass the rounding straight through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bitcycle.arithmetic.products import Counted, Product
from bitcycle.arithmetic.site import BACKWARD, DRAWS, KEY, OBSERVERS, STEP, Site, computing, read
from bitcycle.kernels.noise import uniform
from bitcycle.kernels.rounding import Dims, Encoded, Width, decode, encode, round_to_grid


@dataclass(frozen=True)
class Operand:
    """How an operand goes on the grid: the dimensions that share one, or not at all because it already is."""

    dims: Dims = None
    ready: bool = False


def multiply(
    site: Site,
    product: Product,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    *,
    of_a: Operand,
    of_b: Operand,
    training: bool,
) -> Tensor:
    """A site's product of ``a`` and ``b`` at its bits of the moment, with its quantised backward."""
    bits = site.width(training)
    _rounded(site, "a", a, of_a, bits)
    _rounded(site, "b", b, of_b, bits)
    if not OBSERVERS or torch.compiler.is_compiling():
        return _multiply(site, product, a, b, bias, bits, of_a, of_b)
    with computing(site):
        out = _multiply(site, product, a, b, bias, bits, of_a, of_b)
    return multiplied(site, product, a, b, out)


def _multiply(
    site: Site,
    product: Product,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    bits: Width,
    of_a: Operand,
    of_b: Operand,
) -> Tensor:
    if not torch.is_grad_enabled():
        return _forward(product, _values(a, bits, of_a), _values(b, bits, of_b), bias)
    out = _QuantizedProduct.apply(a, b, bias, site.control, bits, product, of_a, of_b, site.recipe.gradients)
    assert isinstance(out, Tensor)
    return out


def on_grid(site: Site, x: Tensor, dims: Dims, training: bool, operand: str) -> Tensor:
    """An operand on the site's bits, its gradient passed straight through."""
    bits = site.width(training)
    _rounded(site, operand, x, Operand(dims), bits)
    out = _OnGrid.apply(x, bits, dims)
    assert isinstance(out, Tensor)
    return out


def error_on_grid(site: Site, output: Tensor) -> Tensor:
    """The tensor itself; the error that arrives at it is put on the site's backward bits."""
    out = _ErrorOnGrid.apply(output, site.control, site.recipe.gradients)
    assert isinstance(out, Tensor)
    return out


class _QuantizedProduct(torch.autograd.Function):
    """A product whose backward keeps its operands as codes: one byte an element up to 8 bits."""

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        bias: Tensor | None,
        control: Tensor,
        bits: Width,
        product: Product,
        of_a: Operand,
        of_b: Operand,
        rounding: str,
    ) -> Tensor:
        wants_a, wants_b = ctx.needs_input_grad[:2]
        kept_a = _kept(a, bits, of_a, keep=wants_b)
        kept_b = _kept(b, bits, of_b, keep=wants_a)
        out = _forward(product, kept_a.values, kept_b.values, bias)
        ctx.save_for_backward(*(kept_a[1:] if wants_b else (None,) * 3), *(kept_b[1:] if wants_a else (None,) * 3))
        ctx.product, ctx.rounding, ctx.control = product, rounding, control
        ctx.of_a, ctx.of_b = (a.shape, a.dtype), (b.shape, b.dtype)
        return out

    @staticmethod
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_second_order()
        error = _rounded_error(error, ctx.control, ctx.rounding)
        codes_a, scale_a, zero_a, codes_b, scale_b, zero_b = ctx.saved_tensors
        (shape_a, dtype_a), (shape_b, dtype_b) = ctx.of_a, ctx.of_b
        wants_a, wants_b, wants_bias = ctx.needs_input_grad[:3]
        gradient_a = gradient_b = gradient_bias = None
        if wants_a:
            b = decode(codes_b, scale_b, zero_b, dtype_b).to(error.dtype)
            gradient_a = ctx.product.input_gradient(error, b, shape_a).to(dtype_a)
        if wants_b:
            a = decode(codes_a, scale_a, zero_a, dtype_a).to(error.dtype)
            gradient_b = ctx.product.weight_gradient(error, a, shape_b).to(dtype_b)
        if wants_bias:
            gradient_bias = ctx.product.bias_gradient(error)
        return gradient_a, gradient_b, gradient_bias, None, None, None, None, None, None


class _OnGrid(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: Width, dims: Dims) -> Tensor:
        values = round_to_grid(x, bits, dims)
        return values.view_as(values) if values is x else values

    @staticmethod
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor, None, None]:
        return error, None, None


class _ErrorOnGrid(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, control: Tensor, rounding: str) -> Tensor:
        ctx.control, ctx.rounding = control, rounding
        return x.clone()  # a view could not be changed in place by what comes after

    @staticmethod
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor, None, None]:
        _refuse_second_order()
        return _rounded_error(error, ctx.control, ctx.rounding), None, None


def _forward(product: Product, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    device = a.device.type
    if a.dtype is not torch.float64 and torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        a, b, bias = a.to(dtype), b.to(dtype), bias if bias is None else bias.to(dtype)
    return product.output(a, b, bias)


def _values(x: Tensor, bits: Width, how: Operand) -> Tensor:
    return x if how.ready else round_to_grid(x, bits, how.dims)


def _kept(x: Tensor, bits: Width, how: Operand, keep: bool) -> Encoded:
    if how.ready:
        return Encoded(x, x, x, x)
    if keep:
        return encode(x, bits, how.dims)
    values = round_to_grid(x, bits, how.dims)
    return Encoded(values, values, values, values)


def _rounded_error(error: Tensor, control: Tensor, rounding: str) -> Tensor:
    """The error on the backward bits, per tensor."""
    bits = read(control, BACKWARD)
    if isinstance(bits, int) and bits == 0:
        return error
    noise = None if rounding == "nearest" else _next_noise(error, control)
    return round_to_grid(error, bits, None, noise)


def _next_noise(error: Tensor, control: Tensor) -> Tensor:
    return _drawn(error, control) if torch.compiler.is_compiling() else _draw(error, control)


def _draw(error: Tensor, control: Tensor) -> Tensor:
    numbers = control.tolist()
    control[DRAWS] += 1
    return uniform(error, numbers[KEY], numbers[STEP], numbers[DRAWS])


@torch.library.custom_op("bitcycle::drawn", mutates_args=("control",))
def _drawn(error: Tensor, control: Tensor) -> Tensor:
    """The same noise as one opaque operation of a compiled graph."""
    return _draw(error, control)


@_drawn.register_fake
def _(error: Tensor, control: Tensor) -> Tensor:
    return torch.empty_like(error, dtype=torch.int16)


def _refuse_second_order() -> None:
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError(
            "gradients of gradients (create_graph=True) are not defined through a quantised product: "
            "set full precision first, bc.set_bits(model, forward=None, backward=None)"
        )


def multiplied(site: Site, product: Counted, a: Tensor, b: Tensor | None, out: Tensor) -> Tensor:
    """Tell observers of a product that ran; gives back its output."""
    if OBSERVERS and not torch.compiler.is_compiling():
        for observer in list(OBSERVERS):
            observer.multiplied(site, product, a, b, out)
    return out


def _rounded(site: Site, operand: str, x: Tensor, how: Operand, bits: Width) -> None:
    """Tell observers of an operand that goes on the grid."""
    if how.ready or not OBSERVERS or torch.compiler.is_compiling():
        return
    with torch.no_grad():
        after = _values(x, bits, how)
    for observer in list(OBSERVERS):
        observer.rounded(site, operand, x, after)
