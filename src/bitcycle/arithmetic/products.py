"""The products that a site can compute, each with its output, input gradient and weight gradient.

A product is a plain value. Another product is another class with the same methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.kernels.float_rounding import Blocks


class Summed(NamedTuple):
    """The dimensions that the three products of a site sum over, in each of both operands."""

    output: tuple[Blocks, Blocks]
    """Of ``a`` and ``b``."""
    input_gradient: tuple[Blocks, Blocks]
    """Of grad_output and ``b``."""
    weight_gradient: tuple[Blocks, Blocks]
    """Of grad_output and ``a``."""


class Counted(Protocol):
    """What the cost needs to know of a product."""

    @property
    def kind(self) -> str:
        """The name of the product in a table of costs."""

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        """Return the multiply-accumulates of the product. Each of its two gradient products has the same number."""


class Product(Counted, Protocol):
    """A product of operands ``a`` (an activation) and ``b`` (a weight or a second activation)."""

    def output(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        """Return the product, plus the bias if there is one."""

    def input_gradient(self, grad_output: Tensor, b: Tensor, a_shape: torch.Size) -> Tensor:
        """Return the gradient of operand ``a``."""

    def weight_gradient(self, grad_output: Tensor, a: Tensor, b_shape: torch.Size) -> Tensor:
        """Return the gradient of operand ``b``."""

    def bias_gradient(self, grad_output: Tensor) -> Tensor:
        """Return the gradient of the bias."""


def summed(product: Product, a_dim: int) -> Summed:
    """Return the dimensions that the products of a site sum over, for an operand ``a`` of so many dimensions.

    A product that grids with blocks can quantise defines them in its method ``summed``.

    Raises:
        ValueError: The product does not say them.
    """
    method = getattr(product, "summed", None)
    if method is None:
        raise ValueError(
            f"{type(product).__name__} does not say which dimensions it sums over, which a grid with blocks needs: "
            "define its method summed, or choose another grid"
        )
    dimensions: Summed = method(a_dim)
    return dimensions


@dataclass(frozen=True)
class LinearProduct:
    """``a b^T`` over the last dimensions: a (..., in), b (out, in)."""

    kind: ClassVar[str] = "Linear"

    def output(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(a, b, bias)

    def input_gradient(self, grad_output: Tensor, b: Tensor, a_shape: torch.Size) -> Tensor:
        return grad_output.matmul(b)

    def weight_gradient(self, grad_output: Tensor, a: Tensor, b_shape: torch.Size) -> Tensor:
        return _rows(grad_output).t().mm(_rows(a))

    def bias_gradient(self, grad_output: Tensor) -> Tensor:
        return _rows(grad_output).sum(0)

    def summed(self, a_dim: int) -> Summed:
        features, rows = Blocks((-1,)), Blocks(tuple(range(a_dim - 1)))
        return Summed((features, features), (features, Blocks((0,))), (rows, rows))

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        return a.numel() * b[0]


def _rows(x: Tensor) -> Tensor:
    return x.flatten(0, -2) if x.dim() > 1 else x.unsqueeze(0)


@dataclass(frozen=True)
class ConvolutionProduct:
    """A convolution of any dimension, plain or transposed: a (N, C, ...), b in the layout of torch."""

    kind: ClassVar[str] = "Convolution"

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    transposed: bool = False
    output_padding: tuple[int, ...] = ()

    def output(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        return torch.convolution(a, b, bias, *self._geometry())

    def input_gradient(self, grad_output: Tensor, b: Tensor, a_shape: torch.Size) -> Tensor:
        return self._backward(grad_output, _empty(a_shape, grad_output), b, 0)  # only the shape of a is used

    def weight_gradient(self, grad_output: Tensor, a: Tensor, b_shape: torch.Size) -> Tensor:
        return self._backward(grad_output, a, _empty(b_shape, grad_output), 1)

    def both_gradients(self, grad_output: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Return both gradients in one call, which is faster than two."""
        mask = [True, True, False]
        grad_a, grad_b, _ = torch.ops.aten.convolution_backward(grad_output, a, b, None, *self._geometry(), mask)
        return grad_a, grad_b

    def bias_gradient(self, grad_output: Tensor) -> Tensor:
        return grad_output.sum(tuple(d for d in range(grad_output.dim()) if d != 1))

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        # Each output position (input position, if transposed) meets a whole kernel. Padding counts like the rest.
        return (a if self.transposed else out).numel() * b[1:].numel()

    def summed(self, a_dim: int) -> Summed:
        """Blocks run along channels, for each element of the kernel, and in the weight gradient along positions."""
        channels, pixels = Blocks((1,), groups=self.groups), Blocks((0, *range(2, a_dim)))
        of_outer, of_inner = Blocks((0,), groups=self.groups), Blocks((1,))
        of_output, of_gradient = (of_outer, of_inner) if self.transposed else (of_inner, of_outer)
        return Summed((channels, of_output), (channels, of_gradient), (pixels, pixels))

    def has_windows_of_padding(self, b_shape: torch.Size) -> bool:
        """Return whether some windows lie wholly in the padding. oneDNN can crash on them with the channels last."""
        sides = zip(self.padding, self.dilation, b_shape[2:], strict=True)
        return any(padding > dilation * (kernel - 1) for padding, dilation, kernel in sides)

    def _backward(self, grad_output: Tensor, a: Tensor, b: Tensor, wanted: int) -> Tensor:
        mask = [wanted == 0, wanted == 1, False]
        gradient = torch.ops.aten.convolution_backward(grad_output, a, b, None, *self._geometry(), mask)[wanted]
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


def _empty(shape: torch.Size, like: Tensor) -> Tensor:
    """Return a tensor for its shape alone, in the memory layout of another: torch would convert it otherwise."""
    is_last = like.dim() == 4 and like.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if is_last else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)


@dataclass(frozen=True)
class MatmulProduct:
    """``a b``, or ``a b^T`` with ``transpose_b``, over the last two dimensions. Both operands are activations."""

    kind: ClassVar[str] = "Matmul"

    transpose_b: bool = False

    def output(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        return a.matmul(b.mT if self.transpose_b else b)

    def input_gradient(self, grad_output: Tensor, b: Tensor, a_shape: torch.Size) -> Tensor:
        return grad_output.matmul(b if self.transpose_b else b.mT).sum_to_size(a_shape)

    def weight_gradient(self, grad_output: Tensor, a: Tensor, b_shape: torch.Size) -> Tensor:
        gradient = grad_output.mT.matmul(a) if self.transpose_b else a.mT.matmul(grad_output)
        return gradient.sum_to_size(b_shape)

    def bias_gradient(self, grad_output: Tensor) -> Tensor:
        raise AssertionError("a product of two activations has no bias")

    def summed(self, a_dim: int) -> Summed:
        last, before = Blocks((-1,)), Blocks((-2,))
        of_output, of_gradient = (last, before) if self.transpose_b else (before, last)
        return Summed((last, of_output), (last, of_gradient), (before, before))

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        return out.numel() * a[-1]


@dataclass(frozen=True)
class TrilinearProduct:
    """``x1^T W_o x2`` for each output ``o``: first ``x1^T W``, then its product with ``x2``."""

    kind: ClassVar[str] = "Trilinear"

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        _, first, second = b
        return out.numel() * second * (first + 1)


@dataclass(frozen=True)
class AggregationProduct:
    """The sum of messages along the edges of a graph: one multiply-accumulate per edge and feature."""

    kind: ClassVar[str] = "Aggregation"

    edges: int

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        return self.edges * a[1:].numel()


@dataclass(frozen=True)
class ComposedProduct:
    """A torch function that multiplies in its own way, such as ``einsum``: its name and its count."""

    kind: str
    count: int

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        return self.count
