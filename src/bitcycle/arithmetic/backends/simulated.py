"""The simulated backend: products of rounded values in floating point, on any device and in any dtype."""

from __future__ import annotations

import torch
from torch import Tensor

from bitcycle.arithmetic.operands import Operand
from bitcycle.arithmetic.products import Product


def output(product: Product, a: Operand, b: Operand, bias: Tensor | None) -> Tensor:
    """Return the product of two operands."""
    return product.output(a.values(), b.values(), bias)


def input_gradient(product: Product, e: Operand, b: Operand, a_shape: torch.Size, added: Tensor | None) -> Tensor:
    """Return the gradient of operand ``a`` for the grad_output ``e``, plus what the middles of grids add."""
    values = e.values()
    gradient = product.input_gradient(values, b.values().to(values.dtype), a_shape)
    return gradient if added is None else gradient + added


def weight_gradient(product: Product, e: Operand, a: Operand, b_shape: torch.Size, added: Tensor | None) -> Tensor:
    """Return the gradient of operand ``b`` for the grad_output ``e``, plus what the middles of grids add."""
    values = e.values()
    gradient = product.weight_gradient(values, a.values().to(values.dtype), b_shape)
    return gradient if added is None else gradient + added
