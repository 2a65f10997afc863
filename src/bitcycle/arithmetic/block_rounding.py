"""Operands on grids with blocks, which run along the dimension that a product sums over.

This dimension is another one for each of the three products. So each gradient product rounds the original operand
again, along its own sum and at the width of the forward pass, as recipes for such hardware do.

With ``Recipe(hadamard=True)``, both operands of a gradient product are multiplied by a random orthogonal matrix along
the summed dimension before they are rounded: ``(E H)(H^T B) = E B``. It spreads large values over their block.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.arithmetic.grad_output import next_noise
from bitcycle.arithmetic.operands import OperandSpec, Values, put_on_grid
from bitcycle.arithmetic.precision import Strength
from bitcycle.arithmetic.products import LinearProduct, MatmulProduct, Product
from bitcycle.arithmetic.site import Settings
from bitcycle.kernels.float_rounding import Blocks
from bitcycle.kernels.rounding import Width, drawn_noise

HADAMARD_BITS = 4
"""The width of grad_output at which operands are rotated."""


class Original(NamedTuple):
    """An operand as it was before it was rounded, and how it is rounded."""

    tensor: Tensor
    bits: Width
    strength: Strength
    spec: OperandSpec

    def rounded(self, along: Blocks, settings: Settings) -> Values:
        """Round it with blocks along some dimensions."""
        operand = put_on_grid(self.tensor, self.bits, self.spec, settings.grid, strength=self.strength, along=along)
        assert isinstance(operand, Values)
        return operand


def operands_of_gradient(
    product: Product,
    grad_output: Tensor,
    operand: Original,
    along: tuple[Blocks, Blocks],
    bits: Width,
    control: Tensor,
    settings: Settings,
) -> tuple[Values, Values]:
    """Return grad_output and an operand, rounded along the dimension that a gradient product sums over.

    Args:
        product: The product.
        grad_output: The unrounded grad_output.
        operand: The other operand.
        along: The summed dimensions of both.
        bits: The backward bits.
        control: The numbers of the site, from which noise is drawn.
        settings: The settings of the site.
    """
    if settings.hadamard:
        grad_output, rotated, along = _rotated(product, grad_output, operand.tensor, along, bits, control, settings)
        operand = operand._replace(tensor=rotated)
    noise = next_noise(grad_output, control, settings.stochastic, bits)
    spec = OperandSpec()
    error = put_on_grid(grad_output, bits, spec, settings.grid, noise=noise, along=along[0], error=True)
    assert isinstance(error, Values)
    return error, operand.rounded(along[1], settings)


def _rotated(
    product: Product,
    grad_output: Tensor,
    operand: Tensor,
    along: tuple[Blocks, Blocks],
    bits: Width,
    control: Tensor,
    settings: Settings,
) -> tuple[Tensor, Tensor, tuple[Blocks, Blocks]]:
    """Multiply both by a random Hadamard matrix if the errors have its width. Several dimensions become rows.

    Both are padded to whole blocks and the signs are drawn at every width, as a compiled graph must do: the noise
    of an element depends on its index and on the number of draws before it.
    """
    assert isinstance(product, (LinearProduct, MatmulProduct))  # conversion refuses others
    e_dims, dims = along[0].dims, along[1].dims
    assert e_dims is not None
    assert dims is not None
    if len(e_dims) != 1 or len(dims) != 1:  # the rows of a linear layer
        grad_output, operand = (x.reshape(-1, x.shape[-1]) for x in (grad_output, operand))
        e_dims, dims, along = (0,), (0,), (Blocks((0,)), Blocks((0,)))
    size = settings.grid.block
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
