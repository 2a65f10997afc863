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
from bitcycle.arithmetic.execution import Execution, ExecutionPlan, without_autocast
from bitcycle.arithmetic.grad_output import next_noise, refuse_second_order
from bitcycle.arithmetic.operands import Codes, Operand, OperandSpec, Values, put_on_grid, restored
from bitcycle.arithmetic.precision import Precision, Role, Strength
from bitcycle.arithmetic.products import Product
from bitcycle.arithmetic.site import Settings, Site
from bitcycle.kernels import native
from bitcycle.kernels.rounding import BYTE_BITS, Dims, Width


@dataclass(frozen=True, eq=False, slots=True)
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
    weights, activations, strength = precision
    a_bits = weights if a_spec.role is Role.WEIGHT else activations
    b_bits = weights if b_spec.role is Role.WEIGHT else activations
    settings, plan = site.settings, integer_cpu.SIMULATED
    if not torch.compiler.is_compiling():
        if settings.execution is not Execution.SIMULATED:
            plan = integer_cpu.plan(settings, product, a, b, a_bits, b_bits, strength, a_spec, b_spec)
        site.plan = plan
    elif b_bits is a_bits and isinstance(b_bits, Tensor):
        b_bits = b_bits + 0  # the compiler refuses a tensor that is given twice
    call = Call(product, a_spec, b_spec, settings, plan)
    if torch.is_grad_enabled():
        out: Tensor = _Product.apply(a, b, bias, site.control, a_bits, b_bits, strength, call)
        return out
    return product_on_grids(call, *on_grids(call, a, b, a_bits, b_bits, strength, False, False), bias)


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
        on_grid_a, on_grid_b = on_grids(call, a, b, a_bits, b_bits, strength, a_needed, b_needed)
        out = product_on_grids(call, on_grid_a, on_grid_b, bias)
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
        if torch.is_grad_enabled():
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
        self.ctx, self.grad_output, self.call = ctx, grad_output, ctx.call
        self.product, self.settings, self.plan = self.call.product, self.call.settings, self.call.plan
        self.bits = read(ctx.control, BACKWARD)
        self.in_grid_dtype: Tensor | None = None
        """In single precision, if that was needed."""
        self.rounded: Operand | None = None
        """What serves both gradient products, if grad_output is rounded once."""
        if self.settings.grid.block is None:
            if isinstance(self.bits, int) and self.bits == 0:
                self.rounded = Values(grad_output)
            elif self.settings.grad_output != "row and column":
                dims = self.product.rows(grad_output.dim()) if self.settings.grad_output == "row" else None
                self.rounded = self._round(grad_output, dims, None in self.plan[1:])

    def gradients(self, a: Operand | None, b: Operand | None, of_bias: bool) -> tuple[Tensor | None, ...]:
        """Return the gradients of ``a``, ``b`` and the bias: of ``a`` if ``b`` is given, and the other way round."""
        ctx = self.ctx
        grad_a = None if b is None else self._gradient(b, of_a=True).to(ctx.a_dtype)
        if b is None:
            self._skip()
        grad_b = None if a is None else self._gradient(a, of_a=False).to(ctx.b_dtype)
        if a is None:
            self._skip()
        if not of_bias:
            return grad_a, grad_b, None
        # Rounded once as a whole, or unrounded if each product rounds its own.
        return (
            grad_a,
            grad_b,
            self.product.bias_gradient(self.grad_output if self.rounded is None else self.rounded.values()),
        )

    def _skip(self) -> None:
        """Draw the noise of a gradient that nobody needs: that of the others does not depend on it."""
        if self.rounded is None:
            for _ in range(2 if self.settings.hadamard else 1):
                next_noise(self.grad_output.new_empty(0), self.ctx.control, self.settings.stochastic, self.bits)

    def _gradient(self, other: Operand, of_a: bool) -> Tensor:
        """Return the gradient of operand ``a`` or ``b``, with the other operand of the forward product."""
        ctx, product, plan = self.ctx, self.product, self.plan
        in_integers = (plan.input_gradient if of_a else plan.weight_gradient) is None
        error, added = self.rounded, None
        if error is None and self.settings.grid.block is not None:
            error, other = self._operands_in_blocks(other, of_a)
        elif error is None:
            other, factors, added = self._absorbed(other, of_a)
            unrounded = self.grad_output
            if of_a:
                dims = product.rows(unrounded.dim())
            else:
                unrounded, other = product.in_blocks(unrounded), other.reshaped(product.in_blocks)
                factors = None if factors is None else product.in_blocks(factors)
                dims = product.columns(unrounded.shape)
            error = self._round(unrounded, dims, in_integers, factors)
        backend: Any = simulated
        if in_integers and isinstance(error, Codes) and isinstance(other, Codes):
            backend = integer_cpu.MODULES[type(product)]
        if of_a:
            gradient: Tensor = backend.input_gradient(product, error, other, ctx.a_shape, added)
        else:
            gradient = backend.weight_gradient(product, error, other, ctx.b_shape, added)
        return gradient

    def _absorbed(self, other: Operand, of_a: bool) -> tuple[Operand, Tensor | None, Tensor | None]:
        """Let grad_output absorb the scales of the other operand, if they vary along the sum of a gradient product.

        Return the operand without them, the factors of grad_output, and what is added to the product.
        """
        ctx, product, call = self.ctx, self.product, self.call
        spec, dim, absorbs, absorb = (
            (call.b_spec, len(ctx.b_shape), product.absorbs_b, product.absorb_b)
            if of_a
            else (call.a_spec, len(ctx.a_shape), product.absorbs_a, product.absorb_a)
        )
        if other.scale is None or not absorbs(spec.dims, dim):
            return other, None, None
        unit, scale, middle = other.split()
        if self.in_grid_dtype is None:
            error = self.grad_output
            self.in_grid_dtype = error if error.dtype is scale.dtype else native.widen(error, scale.dtype)
        return unit, *absorb(self.in_grid_dtype, scale, middle, ctx.a_shape, ctx.b_shape)

    def _round(self, grad_output: Tensor, dims: Dims, in_integers: bool, factors: Tensor | None = None) -> Operand:
        """Put grad_output, times some factors, on its grid with the next noise of the site."""
        bits, spec, grid = self.bits, OperandSpec(dims), self.settings.grid
        noise = next_noise(grad_output, self.ctx.control, self.settings.stochastic, bits)
        if in_integers and isinstance(bits, int) and 0 < bits <= BYTE_BITS:
            encode = integer_cpu.MODULES[type(self.product)].encode
            encoded: Operand = encode(grad_output, bits, spec, grid, noise, factors)
            return encoded
        return put_on_grid(grad_output, bits, spec, grid, noise=noise, error=True, factors=factors)

    def _operands_in_blocks(self, operand: Operand, of_a: bool) -> tuple[Operand, Operand]:
        """Return grad_output and an operand with blocks along the sum of a gradient product."""
        call, (a_bits, b_bits, strength) = self.call, self.ctx.precision
        summed = self.product.summed(len(self.ctx.a_shape))
        if of_a:
            original, along = Original(operand.values(), b_bits, strength, call.b_spec), summed.input_gradient
        else:
            original, along = Original(operand.values(), a_bits, strength, call.a_spec), summed.weight_gradient
        return operands_of_gradient(
            self.product, self.grad_output, original, along, self.bits, self.ctx.control, self.settings
        )
