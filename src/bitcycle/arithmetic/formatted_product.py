"""A quantised product of floating-point numbers as an autograd function.

Forward: both operands are rounded to nearest, each to the format of its width, then multiplied. The backward pass
rounds the original operands again, at the widths of the forward pass. Without blocks this gives the same values as
before. Blocks run along the dimension that a product sums over, which is another one for each of the three products:
recipes for such hardware also round a copy of each operand for its gradient product, from the original. With blocks,
grad_output is rounded for each of its two products, and the bias gradient is the sum of the unrounded one.

With ``Recipe(hadamard=True)``, both operands of a gradient product are multiplied by a random orthogonal matrix along
the summed dimension before they are rounded: ``(E H)(H^T B) = E B``. It spreads large values over their block.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.arithmetic.control import BACKWARD, Slots, read
from bitcycle.arithmetic.execution import Execution, Means, Reason
from bitcycle.arithmetic.grad_output import next_noise, refuse_second_order, rounded_grad_output
from bitcycle.arithmetic.operands import OperandSpec
from bitcycle.arithmetic.precision import blend
from bitcycle.arithmetic.products import LinearProduct, MatmulProduct, Product, summed
from bitcycle.arithmetic.quantized_product import Widths, simulated_output, widths_of
from bitcycle.arithmetic.site import Settings, Site
from bitcycle.grids.family import LAST
from bitcycle.kernels.float_rounding import Blocks
from bitcycle.kernels.rounding import Width, drawn_noise

HADAMARD_BITS = 4
"""The width of grad_output at which operands are rotated."""


def formatted_product(
    site: Site,
    product: Product,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    slots: Slots,
    a_spec: OperandSpec,
    b_spec: OperandSpec,
) -> Tensor:
    """Return the product of ``a`` and ``b`` at a site, each rounded to its format, with a quantised backward."""
    settings = site.settings
    if not torch.compiler.is_compiling():
        asked = settings.execution is not Execution.SIMULATED
        site.means = Means.simulated(Reason.FORMAT if asked else Reason.NOT_ASKED)
    if not torch.is_grad_enabled():
        widths = widths_of(site.control, slots, a_spec, b_spec)
        return _Operands(product, a_spec, b_spec, widths, settings, a.dim()).output(a, b, bias)
    out = _FormattedProduct.apply(a, b, bias, site.control, slots, product, a_spec, b_spec, settings)
    assert isinstance(out, Tensor)
    return out


class _FormattedProduct(torch.autograd.Function):
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
    ) -> Tensor:
        ctx.operands = _Operands(product, a_spec, b_spec, widths_of(control, slots, a_spec, b_spec), settings, a.dim())
        ctx.control = control
        ctx.a_shape, ctx.b_shape = a.shape, b.shape
        a_needs_grad, b_needs_grad = ctx.needs_input_grad[:2]
        ctx.save_for_backward(a if b_needs_grad else None, b if a_needs_grad else None)
        ctx.dtypes = a.dtype, b.dtype
        return ctx.operands.output(a, b, bias).detach()  # autograd forbids later operations to change a view in place

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_order()
        operands: _Operands = ctx.operands
        a, b = ctx.saved_tensors
        of_bias = ctx.needs_input_grad[2]
        gradients = operands.gradients(grad_output, a, b, ctx.a_shape, ctx.b_shape, of_bias, ctx.control)
        grad_a, grad_b, grad_bias = gradients
        grad_a = None if grad_a is None else grad_a.to(ctx.dtypes[0])
        grad_b = None if grad_b is None else grad_b.to(ctx.dtypes[1])
        return grad_a, grad_b, grad_bias, *(None for _ in range(6))


class _Operands:
    """How the operands of a product are put on their grids for each of its three products."""

    def __init__(
        self,
        product: Product,
        a_spec: OperandSpec,
        b_spec: OperandSpec,
        widths: Widths,
        settings: Settings,
        a_dim: int,
    ) -> None:
        self.product, self.settings, self.widths = product, settings, widths
        self.specs = a_spec, b_spec
        self.summed = None if settings.grid.block is None else summed(product, a_dim)

    def output(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        along = (LAST, LAST) if self.summed is None else self.summed.output
        return simulated_output(self.product, self._round(a, 0, along[0]), self._round(b, 1, along[1]), bias)

    def gradients(
        self,
        grad_output: Tensor,
        a: Tensor | None,
        b: Tensor | None,
        a_shape: torch.Size,
        b_shape: torch.Size,
        of_bias: bool,
        control: Tensor,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the gradients of both operands and of the bias, as far as they are needed."""
        product, grad_a, grad_b = self.product, None, None
        if self.summed is None:
            error = rounded_grad_output(grad_output, control, self.settings)
            if b is not None:
                grad_a = product.input_gradient(error, self._round(b, 1).to(error.dtype), a_shape)
            if a is not None:
                grad_b = product.weight_gradient(error, self._round(a, 0).to(error.dtype), b_shape)
            return grad_a, grad_b, product.bias_gradient(error) if of_bias else None
        if b is not None:
            e, b = self._for_gradient(grad_output, b, 1, self.summed.input_gradient, control)
            grad_a = product.input_gradient(e, b.to(e.dtype), a_shape)
        if a is not None:
            e, a = self._for_gradient(grad_output, a, 0, self.summed.weight_gradient, control)
            grad_b = product.weight_gradient(e, a.to(e.dtype), b_shape)
        return grad_a, grad_b, product.bias_gradient(grad_output) if of_bias else None

    def _for_gradient(
        self, grad_output: Tensor, operand: Tensor, index: int, along: tuple[Blocks, Blocks], control: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return grad_output and an operand, rounded along the dimension that a gradient product sums over."""
        if self.settings.hadamard:
            bits = read(control, BACKWARD)
            grad_output, operand, along = self._rotated(grad_output, operand, along, bits, control)
        error = rounded_grad_output(grad_output, control, self.settings, along[0])
        return error, self._round(operand, index, along[1])

    def _rotated(
        self, grad_output: Tensor, operand: Tensor, along: tuple[Blocks, Blocks], bits: Width, control: Tensor
    ) -> tuple[Tensor, Tensor, tuple[Blocks, Blocks]]:
        """Multiply both by a random Hadamard matrix if the errors have its width. Several dimensions become rows.

        Both are padded to whole blocks and the signs are drawn at every width, as a compiled graph must do: the noise
        of an element depends on its index and on the number of draws before it.
        """
        assert isinstance(self.product, (LinearProduct, MatmulProduct))  # conversion refuses others
        e_dims, dims = along[0].dims, along[1].dims
        assert e_dims is not None
        assert dims is not None
        if len(e_dims) != 1 or len(dims) != 1:  # the rows of a linear layer
            grad_output, operand = (x.reshape(-1, x.shape[-1]) for x in (grad_output, operand))
            e_dims, dims, along = (0,), (0,), (Blocks((0,)), Blocks((0,)))
        size = self.settings.grid.block
        assert size is not None
        terms = grad_output.shape[e_dims[0]]
        padded = grad_output.new_empty(terms + -terms % size)
        noise = next_noise(padded, control, True, bits)
        if isinstance(bits, int) and bits != HADAMARD_BITS:
            return _padded(grad_output, e_dims[0], len(padded)), _padded(operand, dims[0], len(padded)), along
        draws = drawn_noise(padded, noise)
        assert draws is not None
        signs = torch.where(draws < 0, -1.0, 1.0)
        matrix = hadamard(size).to(grad_output.device)
        if not isinstance(bits, int):
            applies = bits == HADAMARD_BITS
            signs = torch.where(applies, signs, 1.0)
            matrix = torch.where(applies, matrix, torch.eye(size, device=matrix.device, dtype=matrix.dtype))
        return _rotate(grad_output, e_dims[0], signs, matrix), _rotate(operand, dims[0], signs, matrix), along

    def _round(self, x: Tensor, index: int, along: Blocks = LAST) -> Tensor:
        """Round operand ``a`` (0) or ``b`` (1)."""
        spec = self.specs[index]
        if spec.already_rounded:
            return x
        bits = self.widths.b if index else self.widths.a
        rounded = self.settings.grid.round(x, bits, spec.dims, along=along)
        return blend(x, rounded, self.widths.strength)


def _padded(x: Tensor, dim: int, size: int) -> Tensor:
    """Pad a dimension with zeros at its end."""
    return F.pad(x.movedim(dim, -1), (0, size - x.shape[dim])).movedim(-1, dim)


def _rotate(x: Tensor, dim: int, signs: Tensor, matrix: Tensor) -> Tensor:
    """Multiply blocks along a dimension by signs and a matrix. The dimension is padded to whole blocks."""
    last = _padded(x, dim, len(signs)).movedim(dim, -1) * signs.to(x.dtype)
    blocks = last.unflatten(-1, (-1, len(matrix))) @ matrix.to(x.dtype)
    return blocks.flatten(-2).movedim(-1, dim)


def hadamard(size: int) -> Tensor:
    """Return the orthogonal Hadamard matrix of a size that is a power of two.

    >>> (hadamard(2) * math.sqrt(2)).round()
    tensor([[ 1.,  1.],
            [ 1., -1.]], dtype=torch.float64)
    """
    matrix = torch.ones(1, 1, dtype=torch.float64, device="cpu")
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / math.sqrt(size)
