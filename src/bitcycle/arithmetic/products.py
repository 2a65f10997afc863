"""The products a site can be, each with its three: output, input gradient, weight gradient.

Each is a plain value; another way to execute a product is another class with the same three methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Counted(Protocol):
    """Whatever multiplies, as far as its cost goes."""

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        """Multiply-accumulates of the product; each of its two gradient products has as many."""


class Product(Counted, Protocol):
    """A product of operands ``a`` (an activation) and ``b`` (a weight, or a second activation)."""

    def output(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        """The product, plus a bias if there is one."""

    def input_gradient(self, error: Tensor, b: Tensor, a: torch.Size) -> Tensor:
        """The gradient of operand ``a``, whose shape is given."""

    def weight_gradient(self, error: Tensor, a: Tensor, b: torch.Size) -> Tensor:
        """The gradient of operand ``b``, whose shape is given."""

    def bias_gradient(self, error: Tensor) -> Tensor:
        """The gradient of the bias."""


@dataclass(frozen=True)
class Linear:
    """``a b^T`` over the last dimensions: a (..., in), b (out, in)."""

    def output(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(a, b, bias)

    def input_gradient(self, error: Tensor, b: Tensor, a: torch.Size) -> Tensor:
        return error.matmul(b)

    def weight_gradient(self, error: Tensor, a: Tensor, b: torch.Size) -> Tensor:
        return _rows(error).t().mm(_rows(a))

    def bias_gradient(self, error: Tensor) -> Tensor:
        return _rows(error).sum(0)

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        return a.numel() * b[0]


def _rows(x: Tensor) -> Tensor:
    return x.flatten(0, -2) if x.dim() > 1 else x.unsqueeze(0)


@dataclass(frozen=True)
class Convolution:
    """A convolution of any dimension, transposed or not: a (N, C, ...), b as torch keeps it."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    transposed: bool = False
    output_padding: tuple[int, ...] = ()

    def output(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        return torch.convolution(a, b, bias, *self._geometry())

    def input_gradient(self, error: Tensor, b: Tensor, a: torch.Size) -> Tensor:
        return self._backward(error, error.new_empty(a), b, 0)  # of a only the shape is looked at

    def weight_gradient(self, error: Tensor, a: Tensor, b: torch.Size) -> Tensor:
        return self._backward(error, a, error.new_empty(b), 1)

    def bias_gradient(self, error: Tensor) -> Tensor:
        return error.sum(tuple(d for d in range(error.dim()) if d != 1))

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        # Each place of the output (of the input, if transposed) meets a whole kernel; padding counts like the rest.
        return (a if self.transposed else out).numel() * b[1:].numel()

    def _backward(self, error: Tensor, a: Tensor, b: Tensor, wanted: int) -> Tensor:
        mask = [wanted == 0, wanted == 1, False]
        gradient = torch.ops.aten.convolution_backward(error, a, b, None, *self._geometry(), mask)[wanted]
        assert isinstance(gradient, Tensor)
        return gradient

    def _geometry(self) -> tuple[list[int], list[int], list[int], bool, list[int], int]:
        output_padding = self.output_padding or (0,) * len(self.stride)
        return (
            list(self.stride),
            list(self.padding),
            list(self.dilation),
            self.transposed,
            list(output_padding),
            self.groups,
        )


@dataclass(frozen=True)
class Matmul:
    """``a b``, or ``a b^T`` if so asked, over the last two dimensions; both operands are activations."""

    transpose_b: bool = False

    def output(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        return a.matmul(b.mT if self.transpose_b else b)

    def input_gradient(self, error: Tensor, b: Tensor, a: torch.Size) -> Tensor:
        return error.matmul(b if self.transpose_b else b.mT).sum_to_size(a)

    def weight_gradient(self, error: Tensor, a: Tensor, b: torch.Size) -> Tensor:
        gradient = error.mT.matmul(a) if self.transpose_b else a.mT.matmul(error)
        return gradient.sum_to_size(b)

    def bias_gradient(self, error: Tensor) -> Tensor:
        raise AssertionError("a product of two activations has no bias")

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        return out.numel() * a[-1]


@dataclass(frozen=True)
class Trilinear:
    """``x1^T W_o x2`` for each output: first ``x1^T W``, then its product with ``x2``."""

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        _, first, second = b
        return out.numel() * second * (first + 1)


@dataclass(frozen=True)
class Aggregation:
    """Messages summed up along the edges of a graph: one multiply-accumulate for each edge and feature."""

    edges: int

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        return self.edges * a[1:].numel()
