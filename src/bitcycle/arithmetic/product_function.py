"""A quantised product as an autograd function.

Forward: both operands are rounded to nearest, each to its own bits, then multiplied. Backward: grad_output is rounded
to the backward bits, once for both gradient products or once for each of them (``Recipe(grad_output=...)``). Its other
operands are the values that the forward product used, whatever the bits and the strength are by then.

A backend computes each of the three products, see :mod:`bitcycle.arithmetic.backends`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bitcycle.arithmetic.backends import integer_cpu, simulated
from bitcycle.arithmetic.block_rounding import Original, operands_of_gradient
from bitcycle.arithmetic.control import BACKWARD, read
from bitcycle.arithmetic.execution import ExecutionPlan, without_autocast
from bitcycle.arithmetic.grad_output import next_noise, refuse_second_order
from bitcycle.arithmetic.operands import Codes, Operand, OperandSpec, Values, put_on_grid, restored
from bitcycle.arithmetic.precision import Precision, Strength
from bitcycle.arithmetic.products import Absorbed, Product
from bitcycle.arithmetic.site import Settings, Site
from bitcycle.kernels import native
from bitcycle.kernels.rounding import BYTE_BITS, Dims, Width, is_full_precision


@dataclass(frozen=True, eq=False)
class Call:
    """What a product is computed with, apart from its operands."""

    product: Product
    a_spec: OperandSpec
    b_spec: OperandSpec
    settings: Settings
    plan: ExecutionPlan


def quantized_product(
    site: Site,
    product: Product,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    precision: Precision,
    a_spec: OperandSpec,
    b_spec: OperandSpec,
) -> Tensor:
    """Return the product of ``a`` and ``b`` at a site, each rounded to its width, with a quantised backward."""
    assert a_spec.role is not None
    assert b_spec.role is not None
    settings = site.settings
    a_bits, b_bits, strength = precision.width(a_spec.role), precision.width(b_spec.role), precision.strength
    if torch.compiler.is_compiling():
        plan = integer_cpu.SIMULATED
        if b_bits is a_bits and isinstance(b_bits, Tensor):
            b_bits = b_bits + 0  # the compiler refuses a tensor that is given twice
    else:
        plan = site.plan = integer_cpu.plan(settings, product, a, b, a_bits, b_bits, strength, a_spec, b_spec)
    call = Call(product, a_spec, b_spec, settings, plan)
    if not torch.is_grad_enabled():
        return _forward(call, a, b, bias, a_bits, b_bits, strength, False, False)[0]
    out = _Product.apply(a, b, bias, site.control, a_bits, b_bits, strength, call)
    assert isinstance(out, Tensor)
    return out


class _Product(torch.autograd.Function):
    """A product that saves its operands for backward, as codes of one byte where there are any."""

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        bias: Tensor | None,
        control: Tensor,
        a_bits: Width,
        b_bits: Width,
        strength: Strength,
        call: Call,
    ) -> Tensor:
        b_needed, a_needed = ctx.needs_input_grad[:2]
        out, on_grid_a, on_grid_b = _forward(call, a, b, bias, a_bits, b_bits, strength, a_needed, b_needed)
        if call.settings.grid.block is not None:
            on_grid_a, on_grid_b = Values(a), Values(b)
            ctx.precision = a_bits, b_bits, strength
        nothing = (None, None, None), None
        a_tensors, ctx.a_form = on_grid_a.saved() if a_needed else nothing
        b_tensors, ctx.b_form = on_grid_b.saved() if b_needed else nothing
        ctx.save_for_backward(*a_tensors, *b_tensors)
        ctx.call, ctx.control, ctx.unpacked = call, control, None
        ctx.a_shape, ctx.a_dtype, ctx.b_shape, ctx.b_dtype = a.shape, a.dtype, b.shape, b.dtype
        return out.detach()  # autograd forbids later operations to change a view in place

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        saved, ctx.unpacked = ctx.unpacked or ctx.saved_tensors, None
        a = None if ctx.a_form is None else restored(saved[:3], ctx.a_form)
        b = None if ctx.b_form is None else restored(saved[3:], ctx.b_form)
        # Autocast in a backward pass would also cast sums that are computed in single precision on purpose.
        with without_autocast(grad_output):
            gradients = Backward(ctx, grad_output).gradients(a, b, ctx.needs_input_grad[2])
        return *gradients, None, None, None, None, None


def output_again(out: Tensor) -> Callable[[], Tensor] | None:
    """Return a function that computes the output of a product again from what its backward pass has saved.

    It can be called until that backward pass. None if both operands are not saved as they were multiplied.
    """
    node: Any = out.grad_fn
    saver: Any = _Product
    if not isinstance(node, saver._backward_cls) or node.call.settings.grid.block is not None:
        return None
    if node.a_form is None or node.b_form is None or node.needs_input_grad[2]:
        return None

    def compute() -> Tensor:
        saved = node.unpacked = node.saved_tensors  # activation checkpointing lets them be read only once
        return product_on_grids(node.call, restored(saved[:3], node.a_form), restored(saved[3:], node.b_form), None)

    return compute


def _forward(
    call: Call,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    a_bits: Width,
    b_bits: Width,
    strength: Strength,
    a_saved: bool,
    b_saved: bool,
) -> tuple[Tensor, Operand, Operand]:
    """Compute the product. Return it with its operands."""
    on_grid_a, on_grid_b = on_grids(call, a, b, a_bits, b_bits, strength, a_saved, b_saved)
    return product_on_grids(call, on_grid_a, on_grid_b, bias), on_grid_a, on_grid_b


def product_on_grids(call: Call, a: Operand, b: Operand, bias: Tensor | None) -> Tensor:
    """Multiply two operands: in integers if the plan says so and both are codes."""
    backend: Any = simulated
    # A bias of another type is left to torch, which refuses it.
    if isinstance(a, Codes) and isinstance(b, Codes) and (bias is None or bias.dtype is a.dtype):
        backend = simulated if call.plan.output is not None else integer_cpu.MODULES[type(call.product)]
    output: Tensor = backend.output(call.product, a, b, bias)
    return output


def on_grids(
    call: Call, a: Tensor, b: Tensor, a_bits: Width, b_bits: Width, strength: Strength, a_saved: bool, b_saved: bool
) -> tuple[Operand, Operand]:
    """Put both operands on their grids, as codes if integers multiply them or if they are saved for backward."""
    grid = call.settings.grid
    if call.plan.output is None:
        assert isinstance(a_bits, int)
        assert isinstance(b_bits, int)
        module = integer_cpu.MODULES[type(call.product)]
        return module.encode(a, a_bits, call.a_spec, grid), module.encode_weight(b, b_bits, call.b_spec, grid)
    if grid.block is not None:
        along = call.product.summed(a.dim()).output
        return (
            Original(a, a_bits, strength, call.a_spec).rounded(along[0], call.settings),
            Original(b, b_bits, strength, call.b_spec).rounded(along[1], call.settings),
        )
    return (
        put_on_grid(a, a_bits, call.a_spec, grid, strength=strength, saves=a_saved),
        put_on_grid(b, b_bits, call.b_spec, grid, strength=strength, saves=b_saved),
    )


class Backward:
    """The gradients of one product for one grad_output."""

    def __init__(self, ctx: Any, grad_output: Tensor) -> None:
        self.ctx, self.call, self.grad_output = ctx, ctx.call, grad_output
        self.product, self.settings, self.plan = ctx.call.product, ctx.call.settings, ctx.call.plan
        self.module: Any = integer_cpu.MODULES.get(type(self.product))
        self.bits = read(ctx.control, BACKWARD)
        self.in_grid_dtype: Tensor | None = None
        """In single precision, if that was needed."""
        self.rounded: Operand | None = None
        """What serves both gradient products, if grad_output is rounded once."""
        if is_full_precision(self.bits) and self.settings.grid.block is None:
            self.rounded = Values(grad_output)
        elif self.settings.grid.block is None and self.settings.grad_output != "row and column":
            dims = self.product.rows(grad_output.dim()) if self.settings.grad_output == "row" else None
            in_integers = self.plan.input_gradient is None or self.plan.weight_gradient is None
            self.rounded = self._round(grad_output, dims, in_integers)

    def gradients(self, a: Operand | None, b: Operand | None, of_bias: bool) -> tuple[Tensor | None, ...]:
        """Return the gradients of ``a``, ``b`` and the bias: of ``a`` if ``b`` is given, and the other way round."""
        grad_a = None if b is None else self.input_gradient(b).to(self.ctx.a_dtype)
        if grad_a is None:
            self.skip_noise()
        grad_b = None if a is None else self.weight_gradient(a).to(self.ctx.b_dtype)
        if grad_b is None:
            self.skip_noise()
        return grad_a, grad_b, self.bias_gradient() if of_bias else None

    def skip_noise(self) -> None:
        """Draw the noise of a gradient that nobody needs: that of the others does not depend on it."""
        if self.rounded is None:
            for _ in range(2 if self.settings.hadamard else 1):
                next_noise(self.grad_output.new_empty(0), self.ctx.control, self.settings.stochastic, self.bits)

    def input_gradient(self, b: Operand) -> Tensor:
        """Return the gradient of operand ``a``."""
        ctx, product, in_integers = self.ctx, self.product, self.plan.input_gradient is None
        absorb = product.absorb_b if product.absorbs_b(self.call.b_spec.dims, len(ctx.b_shape)) else None
        e, b, added = self._operands(b, absorb, in_integers, of_a=False)
        backend = self.module if isinstance(e, Codes) and isinstance(b, Codes) and in_integers else simulated
        gradient: Tensor = backend.input_gradient(product, e, b, ctx.a_shape, added)
        return gradient

    def weight_gradient(self, a: Operand) -> Tensor:
        """Return the gradient of operand ``b``."""
        ctx, product, in_integers = self.ctx, self.product, self.plan.weight_gradient is None
        absorb = product.absorb_a if product.absorbs_a(self.call.a_spec.dims, len(ctx.a_shape)) else None
        e, a, added = self._operands(a, absorb, in_integers, of_a=True)
        backend = self.module if isinstance(e, Codes) and isinstance(a, Codes) and in_integers else simulated
        gradient: Tensor = backend.weight_gradient(product, e, a, ctx.b_shape, added)
        return gradient

    def _operands(
        self, other: Operand, absorb: Callable[..., Absorbed] | None, in_integers: bool, of_a: bool
    ) -> tuple[Operand, Operand, Tensor | None]:
        """Return grad_output and the other operand as a gradient product multiplies them, and what is added to it."""
        if self.rounded is not None:
            return self.rounded, other, None
        if self.settings.grid.block is not None:
            return *self._operands_in_blocks(other, of_a), None
        error, factors, added = self.grad_output, None, None
        if absorb is not None and other.scale is not None:
            other, scale, middle = other.split()
            if self.in_grid_dtype is None:
                self.in_grid_dtype = native.widen(self.grad_output, scale.dtype)
            factors, added = absorb(self.in_grid_dtype, scale, middle, self.ctx.a_shape, self.ctx.b_shape)
        if not of_a:
            return self._round(error, self.product.rows(error.dim()), in_integers, factors), other, added
        in_blocks = self.product.in_blocks
        error, factors = in_blocks(error), None if factors is None else in_blocks(factors)
        other = other.reshaped(in_blocks)
        return self._round(error, self.product.columns(error.shape), in_integers, factors), other, added

    def bias_gradient(self) -> Tensor:
        """Return the sum of grad_output: as it is rounded once, or unrounded if each product rounds its own."""
        gradient: Tensor = self.product.bias_gradient(
            self.grad_output if self.rounded is None else self.rounded.values()
        )
        return gradient

    def _round(self, grad_output: Tensor, dims: Dims, in_integers: bool, factors: Tensor | None = None) -> Operand:
        """Put grad_output, times some factors, on its grid with the next noise of the site."""
        bits, spec, grid = self.bits, OperandSpec(dims), self.settings.grid
        noise = next_noise(grad_output, self.ctx.control, self.settings.stochastic, bits)
        if in_integers and isinstance(bits, int) and 0 < bits <= BYTE_BITS:
            encoded: Operand = self.module.encode(grad_output, bits, spec, grid, noise, factors)
            return encoded
        return put_on_grid(grad_output, bits, spec, grid, noise=noise, error=True, factors=factors)

    def _operands_in_blocks(self, operand: Operand, of_a: bool) -> tuple[Operand, Operand]:
        """Return grad_output and an operand with blocks along the sum of a gradient product."""
        call, (a_bits, b_bits, strength) = self.call, self.ctx.precision
        summed = self.product.summed(len(self.ctx.a_shape))
        if of_a:
            original, along = Original(operand.values(), a_bits, strength, call.a_spec), summed.weight_gradient
        else:
            original, along = Original(operand.values(), b_bits, strength, call.b_spec), summed.input_gradient
        return operands_of_gradient(
            self.product, self.grad_output, original, along, self.bits, self.ctx.control, self.settings
        )
