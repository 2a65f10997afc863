"""A quantised product as an autograd function.

Forward: both operands are rounded to nearest, each to its own bits, then multiplied. Backward: grad_output is rounded
once to the backward bits and serves the input gradient and the weight gradient. Its other operands are the values that
the forward product used, whatever the bits and the strength are by then. With ``Recipe(fold_scales=True)``, a
gradient product that sums over several scales rounds a grad_output of its own, see :mod:`bitcycle.arithmetic.folding`.

Each of the three products is computed in integers or simulated, see :mod:`bitcycle.arithmetic.execution`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bitcycle.arithmetic import integer_convolution, integer_linear
from bitcycle.arithmetic.control import BACKWARD, Slots, read, read_precision
from bitcycle.arithmetic.execution import Execution, Means, Reason, is_autocast_enabled
from bitcycle.arithmetic.folding import add_to_rows, fold_a, fold_b, folds_a, folds_b
from bitcycle.arithmetic.grad_output import next_noise, refuse_second_order
from bitcycle.arithmetic.operands import Operand, OperandSpec, put_on_grid, share_weight, shared_weight
from bitcycle.arithmetic.precision import Strength
from bitcycle.arithmetic.products import ConvolutionProduct, LinearProduct, Product
from bitcycle.arithmetic.site import Settings, Site
from bitcycle.grids import GridFamily
from bitcycle.kernels import native
from bitcycle.kernels.images import has_channels_last, to_channels_last, to_contiguous
from bitcycle.kernels.rounding import BYTE_BITS, Width, is_full_precision

IN_INTEGERS: dict[type, Any] = {LinearProduct: integer_linear, ConvolutionProduct: integer_convolution}
"""The modules that compute products in integers."""


class Widths(NamedTuple):
    """What the operands of a product are rounded to: their widths, and the strength of rounding."""

    a: Width
    b: Width
    strength: Strength

    @property
    def both_in_bytes(self) -> bool:
        """Whether the codes of both operands fit in bytes; False in a compiled graph."""
        return self.strength_is_full and all(isinstance(bits, int) and 0 < bits <= BYTE_BITS for bits in self[:2])

    @property
    def strength_is_full(self) -> bool:
        """Whether operands are on their grids; False if only a compiled graph could tell."""
        return isinstance(self.strength, float) and self.strength == 1


def quantized_product(
    site: Site,
    product: Product,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    slots: Slots,
    a_spec: OperandSpec,
    b_spec: OperandSpec,
) -> Tensor:
    """Return the product of ``a`` and ``b`` at a site, each rounded to its width, with a quantised backward."""
    settings = site.settings
    widths = widths_of(site.control, slots, a_spec, b_spec)
    if torch.compiler.is_compiling():
        means = _SIMULATED
    else:
        means = site.means = means_of(product, a, b, a_spec, b_spec, widths, settings)
    if not torch.is_grad_enabled():
        channels_last = _uses_channels_last(product, means, a, b, widths)
        operands = (a, b, bias, widths, a_spec, b_spec)
        return _forward(product, means, settings.grid, *operands, channels_last, False, False)[0]
    out = _QuantizedProduct.apply(a, b, bias, site.control, slots, product, a_spec, b_spec, settings, means)
    assert isinstance(out, Tensor)
    return out


class _QuantizedProduct(torch.autograd.Function):
    """A product that saves its operands for backward as codes, one byte per element for up to 8 bits, if not small."""

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        bias: Tensor | None,
        control: Tensor,
        slots: Slots,
        product: Product,
        a_spec: OperandSpec,
        b_spec: OperandSpec,
        settings: Settings,
        means: Means,
    ) -> Tensor:
        a_needs_grad, b_needs_grad = ctx.needs_input_grad[:2]
        save_a, save_b = (
            needed and _saves_codes(x, settings, means) for needed, x in ((b_needs_grad, a), (a_needs_grad, b))
        )
        widths = widths_of(control, slots, a_spec, b_spec)
        ctx.channels_last = _uses_channels_last(product, means, a, b, widths)
        out, on_grid_a, on_grid_b = _forward(
            product,
            means,
            settings.grid,
            a,
            b,
            bias,
            widths,
            a_spec,
            b_spec,
            ctx.channels_last,
            save_a,
            save_b,
        )
        saved = [on_grid_a if b_needs_grad else None, on_grid_b if a_needs_grad else None]
        ctx.save_for_backward(*_tensors(saved[0]), *_tensors(saved[1]))
        ctx.product, ctx.settings, ctx.control, ctx.means = product, settings, control, means
        ctx.weight = on_grid_b  # other products may share it until backward
        ctx.grids = [None if each is None else each.numbers() for each in saved]
        ctx.specs = a_spec, b_spec
        ctx.a_shape, ctx.a_dtype, ctx.b_shape, ctx.b_dtype = a.shape, a.dtype, b.shape, b.dtype
        ctx.results_channels_last = has_channels_last(a) or has_channels_last(b)
        return out.detach()  # autograd forbids later operations to change a view in place

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        ctx.weight = None
        saved = ctx.saved_tensors
        a = None if ctx.grids[0] is None else Operand.restored(saved[:3], ctx.grids[0], ctx.a_dtype)
        b = None if ctx.grids[1] is None else Operand.restored(saved[3:], ctx.grids[1], ctx.b_dtype)
        grad_a, grad_b, grad_bias = _Backward(ctx, grad_output).gradients(a, b, ctx.needs_input_grad[2])
        return grad_a, grad_b, grad_bias, *(None for _ in range(7))


SMALL = 16_384
"""Operands with fewer elements are saved as values: what codes would save of their memory is not worth the time."""


def _saves_codes(x: Tensor, settings: Settings, means: Means) -> bool:
    """Return whether backward gets the codes of an operand. Integer products and folded scales need them."""
    needs_codes = settings.fold or None in means
    return needs_codes or torch.compiler.is_compiling() or x.numel() >= SMALL


def widths_of(control: Tensor, slots: Slots, a_spec: OperandSpec, b_spec: OperandSpec) -> Widths:
    """Return the current widths of both operands of a product."""
    precision = read_precision(control, slots)
    assert a_spec.role is not None
    assert b_spec.role is not None
    return Widths(precision.width(a_spec.role), precision.width(b_spec.role), precision.strength)


_SIMULATED = Means.simulated(Reason.NOT_ASKED)


def means_of(
    product: Product,
    a: Tensor,
    b: Tensor,
    a_spec: OperandSpec,
    b_spec: OperandSpec,
    widths: Widths,
    settings: Settings,
) -> Means:
    """Return how the three products of a site are computed."""
    if settings.execution is Execution.SIMULATED or not (isinstance(widths.a, int) and isinstance(widths.b, int)):
        return _SIMULATED
    if widths.a == 0 or widths.b == 0:
        return Means.simulated(Reason.FULL_PRECISION if widths.a == widths.b else Reason.ONE_FULL)
    if not widths.strength_is_full:
        return Means.simulated(Reason.STRENGTH)
    if max(widths.a, widths.b) > BYTE_BITS:
        return Means.simulated(Reason.WIDTH)
    integers = IN_INTEGERS.get(type(product))
    if integers is None:
        return Means.simulated(Reason.KIND)
    means: Means = integers.means(product, a, b, a_spec, b_spec, settings.fold, settings.execution)
    return means


def _forward(
    product: Product,
    means: Means,
    grid: GridFamily,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    widths: Widths,
    a_spec: OperandSpec,
    b_spec: OperandSpec,
    channels_last: bool,
    save_a: bool,
    save_b: bool,
) -> tuple[Tensor, Operand, Operand]:
    """Compute the product. Return it with its operands, which have codes if those are to be saved."""
    in_integers = means.output is None
    needs_codes = in_integers or channels_last
    strength = widths.strength
    on_grid_a = put_on_grid(
        a,
        widths.a,
        a_spec,
        strength=strength,
        values=not needs_codes,
        codes=needs_codes or save_a,
        channels_last=channels_last,
        grid=grid,
    )
    shares = save_b and isinstance(widths.b, int) and widths.strength_is_full and not torch.compiler.is_compiling()
    shared = shared_weight(b, widths.b, b_spec, grid) if shares else None
    if shared is not None:
        on_grid_b = shared
    else:
        on_grid_b = put_on_grid(
            b, widths.b, b_spec, strength=strength, values=not needs_codes, codes=needs_codes or save_b, grid=grid
        )
        if shares:
            share_weight(b, on_grid_b, widths.b, b_spec, grid)
    results_channels_last = has_channels_last(a) or has_channels_last(b)  # as torch decides
    # A bias of another type is left to torch, which refuses it.
    same_type = bias is None or bias.dtype is a.dtype
    if in_integers and same_type and on_grid_a.in_bytes and on_grid_b.in_bytes:
        on_grid_a.results_channels_last = results_channels_last
        out = IN_INTEGERS[type(product)].output(product, on_grid_a, on_grid_b, bias)
    else:
        out = simulated_output(product, on_grid_a.values(), on_grid_b.values(), bias)
    on_grid_a.known_values = on_grid_b.known_values = on_grid_a.pixel_sums = None
    return _in_layout(out, channels_last, results_channels_last), on_grid_a, on_grid_b


def simulated_output(product: Product, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    """Return a product of operands that are on their grids, in the type of autocast if that is enabled."""
    if a.dtype is not torch.float64 and is_autocast_enabled(a):
        dtype = torch.get_autocast_dtype(a.device.type)
        a, b, bias = a.to(dtype), b.to(dtype), bias if bias is None else bias.to(dtype)
    return product.output(a, b, bias)


LARGE = 25_000_000
"""Convolutions with this many multiply-accumulates or more gain by another memory layout."""


def _uses_channels_last(product: Product, means: Means, a: Tensor, b: Tensor, widths: Widths) -> bool:
    """Return whether a product of images is computed with the channels last in memory.

    Integer products need that layout. Large products are faster in it on the CPU.
    """
    if not isinstance(product, ConvolutionProduct) or not widths.both_in_bytes:
        return False
    if None in means:
        return True
    if product.has_windows_of_padding(b.shape):
        return False
    out_pixels = a.shape[2:].numel() // math.prod(product.stride)
    return a.dim() == 4 and native.supports(a) and len(a) * out_pixels * b.numel() >= LARGE


def _in_layout(images: Tensor, channels_last: bool, results_channels_last: bool) -> Tensor:
    """Return a result that was computed with channels last in the memory layout that torch would give it."""
    if not channels_last:
        return images
    return to_channels_last(images) if results_channels_last else to_contiguous(images)


def _tensors(operand: Operand | None) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    return (None, None, None) if operand is None else operand.tensors()


class _Backward:
    """The gradients of one product for one grad_output."""

    def __init__(self, ctx: Any, grad_output: Tensor) -> None:
        self.product, self.settings, self.control, self.ctx = ctx.product, ctx.settings, ctx.control, ctx
        self.means: Means = ctx.means
        self.grad_output = grad_output
        self.bits = read(ctx.control, BACKWARD)
        self.in_integers = isinstance(self.bits, int) and 0 < self.bits <= BYTE_BITS
        self.channels_last = ctx.channels_last and self.in_integers
        self.rounded: Operand | None = None

    def gradients(self, a: Operand | None, b: Operand | None, of_bias: bool) -> tuple[Tensor | None, ...]:
        """Return the gradients of both operands and of the bias, as far as they are needed."""
        a_spec, b_spec = self.ctx.specs
        a_folds = a is not None and self._folds(a, folds_a(self.product, a_spec))
        b_folds = b is not None and self._folds(b, folds_b(self.product, b_spec))
        grad_a_in_integers = b is not None and self._is_integer(b, self.means.input_gradient)
        grad_b_in_integers = a is not None and self._is_integer(a, self.means.weight_gradient)
        products = [(b, b_folds, grad_a_in_integers), (a, a_folds, grad_b_in_integers)]
        # Products that fold scales round a grad_output of their own. The others share one.
        in_integers = [integer for operand, folds, integer in products if operand is not None and not folds]
        if in_integers or (of_bias and not (a_folds or b_folds)):
            wants_values = not in_integers or not all(in_integers)
            self.rounded = self._round(self.grad_output, values=wants_values, codes=any(in_integers))
        simulated = not (a_folds or b_folds or grad_a_in_integers or grad_b_in_integers)
        grad_a: Tensor | None
        grad_b: Tensor | None
        if simulated and a is not None and b is not None and isinstance(self.product, ConvolutionProduct):
            grad_a, grad_b = self._both_gradients(a, b)
        else:
            grad_a = None if b is None else self._input_gradient(b, b_folds, grad_a_in_integers)
            grad_b = None if a is None else self._weight_gradient(a, a_folds, grad_b_in_integers)
        return grad_a, grad_b, self._bias_gradient(a_folds or b_folds) if of_bias else None

    def _folds(self, operand: Operand, scales_along_sum: bool) -> bool:
        both_rounded = not (is_full_precision(operand.bits) or is_full_precision(self.bits))
        return self.settings.fold and scales_along_sum and both_rounded

    def _is_integer(self, operand: Operand, reason: Reason | None) -> bool:
        return reason is None and self.in_integers and operand.in_bytes

    def _round(self, grad_output: Tensor, values: bool, codes: bool) -> Operand:
        """Put grad_output on its grid, one for the tensor, with the next noise of the site."""
        bits = self.bits
        noise = next_noise(grad_output, self.control, self.settings.stochastic, bits)
        channels_last = self.channels_last and (codes or not has_channels_last(grad_output))
        rounded = put_on_grid(
            grad_output,
            bits,
            noise=noise,
            values=values and not channels_last,
            codes=codes or channels_last,
            channels_last=channels_last,
            grid=self.settings.grid,
        )
        rounded.results_channels_last = self.ctx.results_channels_last
        return rounded

    def _both_gradients(self, a: Operand, b: Operand) -> tuple[Tensor, Tensor]:
        assert self.rounded is not None
        e = self.rounded.values()
        grad_a, grad_b = self.product.both_gradients(e, a.values().to(e.dtype), b.values().to(e.dtype))
        grad_a = _in_layout(grad_a, self.ctx.channels_last, self.ctx.results_channels_last)
        return grad_a.to(self.ctx.a_dtype), grad_b.to(self.ctx.b_dtype)

    def _input_gradient(self, b: Operand, folded: bool, in_integers: bool) -> Tensor:
        product, a_shape, row_bias = self.product, self.ctx.a_shape, None
        e = self.rounded
        if folded:
            b, scale, middle = b.with_unit_scale()
            scaled, row_bias = fold_b(product, self.grad_output, scale, middle, a_shape, self.ctx.b_shape)
            e = self._round(scaled, not in_integers, in_integers)
        gradient = self._multiply("input_gradient", e, b, a_shape, row_bias, in_integers)
        return _in_layout(gradient, self.ctx.channels_last, self.ctx.results_channels_last).to(self.ctx.a_dtype)

    def _weight_gradient(self, a: Operand, folded: bool, in_integers: bool) -> Tensor:
        row_bias = None
        e = self.rounded
        if folded:
            a, scale, middle = a.with_unit_scale()
            scaled, row_bias = fold_a(self.grad_output, scale, middle)
            e = self._round(scaled, not in_integers, in_integers)
        return self._multiply("weight_gradient", e, a, self.ctx.b_shape, row_bias, in_integers).to(self.ctx.b_dtype)

    def _multiply(
        self,
        gradient: str,
        e: Operand | None,
        other: Operand,
        shape: torch.Size,
        row_bias: Tensor | None,
        in_integers: bool,
    ) -> Tensor:
        """Return one of the two gradient products, by its name, plus a number for each of its rows if given."""
        assert e is not None
        product = self.product
        if in_integers and e.in_bytes:
            found = getattr(IN_INTEGERS[type(product)], gradient)(product, e, other, shape, row_bias)
        else:
            values = e.values()
            found = getattr(product, gradient)(values, other.values().to(values.dtype), shape)
            found = found if row_bias is None else add_to_rows(product, found, row_bias)
        assert isinstance(found, Tensor)
        return found

    def _bias_gradient(self, folded: bool) -> Tensor:
        """Sum grad_output: as it is rounded for both products, or unrounded if each product rounds its own."""
        if self.rounded is None or folded:
            gradient = self.product.bias_gradient(self.grad_output)
        elif self.rounded.known_values is None and self.rounded.in_bytes:
            gradient = IN_INTEGERS[type(self.product)].bias_gradient(self.product, self.rounded)
        else:
            gradient = self.product.bias_gradient(self.rounded.values())
        assert isinstance(gradient, Tensor)
        return gradient
