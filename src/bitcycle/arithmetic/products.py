"""The products that a site can compute, each with its output, input gradient and weight gradient.

A product is a plain value. Another product is another subclass of :class:`Product`.

A gradient product sums over the rows of grad_output, or over its columns. Grids of grad_output that do not vary along
this sum, and scales of the other operand that are multiplied into grad_output before it is rounded, let integers
compute the sum. For an operand with values ``s_n unit_n + middle_n`` along the summed dimension,

    sum_n E_n (s_n unit_n + middle_n) = sum_n (E_n s_n) unit_n + sum_n E_n middle_n

The second sum is the same for all elements of a row (or column) of the gradient, and is computed in floating point from
the unrounded grad_output.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.kernels.convolutions import has_channels_last
from bitcycle.kernels.float_rounding import Blocks
from bitcycle.kernels.rounding import Dims

BLOCK = 128
"""Rows of grad_output whose columns have grids of their own in the weight gradient of a linear layer."""
FEW = 16
"""Fewer positions than this of a channel of a sample have no grid of their own."""


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


class Absorbed(NamedTuple):
    """The scales of an operand as factors of grad_output, and what the middles of its grids add to the gradient."""

    factors: Tensor
    added: Tensor


class Product(Counted):
    """A product of operands ``a`` (an activation) and ``b`` (a weight or a second activation)."""

    def output(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        """Return the product, plus the bias if there is one."""
        raise NotImplementedError

    def input_gradient(self, grad_output: Tensor, b: Tensor, a_shape: torch.Size) -> Tensor:
        """Return the gradient of operand ``a``."""
        raise NotImplementedError

    def weight_gradient(self, grad_output: Tensor, a: Tensor, b_shape: torch.Size) -> Tensor:
        """Return the gradient of operand ``b``."""
        raise NotImplementedError

    def bias_gradient(self, grad_output: Tensor) -> Tensor:
        """Return the gradient of the bias."""
        raise NotImplementedError

    def rows(self, dim: int) -> Dims:
        """Return the dimensions of a grad_output with ``dim`` dimensions that share a grid, for one grid per row."""
        return None

    def columns(self, shape: torch.Size) -> Dims:
        """Return the dimensions of a grad_output in blocks that share a grid, for the weight gradient."""
        return None

    def in_blocks(self, x: Tensor, filling: float | Tensor | None = None) -> Tensor:
        """Return grad_output, its factors or operand ``a`` in the blocks that the weight gradient is a sum over.

        The last block is filled with a number, by default with its last row.
        """
        return x

    def absorbs_b(self, dims: Dims, dim: int) -> bool:
        """Return whether grad_output can be multiplied by the scales of ``b``, which vary along the summed dimension.

        Args:
            dims: The dimensions of ``b`` that share a grid.
            dim: The number of its dimensions.
        """
        return False

    def absorbs_a(self, dims: Dims, dim: int) -> bool:
        """Return whether grad_output can be multiplied by the scales of ``a``, as in :meth:`absorbs_b`."""
        return False

    def absorb_b(
        self, grad_output: Tensor, scale: Tensor, middle: Tensor, a_shape: torch.Size, b_shape: torch.Size
    ) -> Absorbed:
        """Return the factors of grad_output that are the scales of ``b``, for the input gradient."""
        raise NotImplementedError

    def absorb_a(
        self, grad_output: Tensor, scale: Tensor, middle: Tensor, a_shape: torch.Size, b_shape: torch.Size
    ) -> Absorbed:
        """Return the factors of grad_output that are the scales of ``a``, for the weight gradient."""
        raise NotImplementedError

    def summed(self, a_dim: int) -> Summed:
        """Return the dimensions that the products sum over, for an operand ``a`` of so many dimensions.

        Grids with blocks need them.
        """
        raise ValueError(
            f"{type(self).__name__} does not say which dimensions it sums over, which a grid with blocks needs: "
            "define its method summed, or choose another grid"
        )


def _varies_along(dims: Dims, dim: int, summed: int, other: int) -> bool:
    """Return whether there is a grid for each element along a dimension, and one for all along another."""
    shared = range(dim) if dims is None else [d % dim for d in dims]
    return summed % dim not in shared and other % dim in shared


@dataclass(frozen=True)
class LinearProduct(Product):
    """``a b^T`` over the last dimensions: a (..., in), b (out, in)."""

    kind: ClassVar[str] = "Linear"

    def output(self, a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(a, b, bias)

    def input_gradient(self, grad_output: Tensor, b: Tensor, a_shape: torch.Size) -> Tensor:
        return grad_output.matmul(b)

    def weight_gradient(self, grad_output: Tensor, a: Tensor, b_shape: torch.Size) -> Tensor:
        if grad_output.dim() != 2:
            grad_output, a = _rows(grad_output), _rows(a)
        return grad_output.t().mm(a)

    def bias_gradient(self, grad_output: Tensor) -> Tensor:
        return grad_output.sum(0) if grad_output.dim() == 2 else _rows(grad_output).sum(0)

    def rows(self, dim: int) -> Dims:
        return (-1,)

    def columns(self, shape: torch.Size) -> Dims:
        """One grid per column of each block of rows."""
        return (-2,) if len(shape) > 1 else None

    def in_blocks(self, x: Tensor, filling: float | Tensor | None = None) -> Tensor:
        count, columns = x.shape[:-1].numel(), x.shape[-1]
        rows = x.reshape(count, columns)
        if count <= BLOCK:
            return rows
        if missing := -count % BLOCK:
            last = rows[-1:]
            if filling is not None:
                last = filling.to(rows.dtype) if isinstance(filling, Tensor) else rows.new_full((), filling)
            rows = torch.cat([rows, last.expand(missing, columns)])
        return rows.view(-1, BLOCK, columns)

    def absorbs_b(self, dims: Dims, dim: int) -> bool:
        return dims in ((-1,), (1,))

    def absorbs_a(self, dims: Dims, dim: int) -> bool:
        return dim > 1 and dims in ((-1,), (dim - 1,))

    def absorb_b(
        self, grad_output: Tensor, scale: Tensor, middle: Tensor, a_shape: torch.Size, b_shape: torch.Size
    ) -> Absorbed:
        return Absorbed(scale.flatten(), grad_output.matmul(middle))

    def absorb_a(
        self, grad_output: Tensor, scale: Tensor, middle: Tensor, a_shape: torch.Size, b_shape: torch.Size
    ) -> Absorbed:
        return Absorbed(scale, grad_output.flatten(0, -2).t().mm(middle.flatten(0, -2)))

    def summed(self, a_dim: int) -> Summed:
        features, rows = Blocks((-1,)), Blocks(tuple(range(a_dim - 1)))
        return Summed((features, features), (features, Blocks((0,))), (rows, rows))

    def macs(self, a: torch.Size, b: torch.Size, out: torch.Size) -> int:
        return a.numel() * b[0]


def _rows(x: Tensor) -> Tensor:
    return x.flatten(0, -2) if x.dim() > 1 else x.unsqueeze(0)


@dataclass(frozen=True)
class ConvolutionProduct(Product):
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

    def bias_gradient(self, grad_output: Tensor) -> Tensor:
        return grad_output.sum(tuple(d for d in range(grad_output.dim()) if d != 1))

    def rows(self, dim: int) -> Dims:
        """One grid per sample."""
        return tuple(range(1, dim))

    def columns(self, shape: torch.Size) -> Dims:
        """One grid per channel of each sample, or per sample if a channel has few positions."""
        return tuple(range(2 if shape[2:].numel() >= FEW else 1, len(shape)))

    def absorbs_b(self, dims: Dims, dim: int) -> bool:
        channel = 1 if self.transposed else 0
        if self.transposed and self.groups > 1:  # a channel is a pair of a group and a column of the weight
            return False
        return dims is not None and {d % dim for d in dims} == set(range(dim)) - {channel}

    def absorbs_a(self, dims: Dims, dim: int) -> bool:
        return dims is not None and {d % dim for d in dims} == set(range(1, dim))

    def absorb_b(
        self, grad_output: Tensor, scale: Tensor, middle: Tensor, a_shape: torch.Size, b_shape: torch.Size
    ) -> Absorbed:
        by_channel = (1, -1, *(1 for _ in self.stride))
        of_groups = _sum_of_channels(grad_output, middle.flatten(), self.groups)
        added = _along(of_groups, [each.inputs for each in self._meeting(grad_output, a_shape, b_shape)])
        if self.groups > 1:
            added = added.repeat_interleave(a_shape[1] // self.groups, 1)
        return Absorbed(scale.view(by_channel), added)

    def absorb_a(
        self, grad_output: Tensor, scale: Tensor, middle: Tensor, a_shape: torch.Size, b_shape: torch.Size
    ) -> Absorbed:
        of_images = _sum_of_images(grad_output, middle.flatten())
        added = _along(of_images, [each.kernel for each in self._meeting(grad_output, a_shape, b_shape)])
        if not self.transposed:
            added = added.transpose(0, 1)
        elif self.groups > 1:
            added = added.squeeze(0).unflatten(0, (self.groups, -1)).repeat_interleave(a_shape[1] // self.groups, 0)
        return Absorbed(scale, added)

    def _meeting(self, grad_output: Tensor, a_shape: torch.Size, b_shape: torch.Size) -> list[Meeting]:
        """Return for each spatial dimension which positions of grad_output meet which of ``a`` and of the kernel."""
        count = _kept_meeting if grad_output.is_cpu and not torch.compiler.is_compiling() else _meeting
        sizes = zip(a_shape[2:], grad_output.shape[2:], b_shape[2:], strict=True)
        geometry = zip(sizes, self.stride, self.padding, self.dilation, strict=True)
        return [
            count(*sizes, stride, padding, dilation, self.transposed, grad_output.dtype, grad_output.device)
            for sizes, stride, padding, dilation in geometry
        ]

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


class Meeting(NamedTuple):
    """How often positions of grad_output (rows) meet others (columns) in a convolution, along one dimension."""

    inputs: Tensor
    """With positions of the input."""
    kernel: Tensor
    """With elements of the kernel."""


def _meeting(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int,
    padding: int,
    dilation: int,
    transposed: bool,
    dtype: torch.dtype,
    device: torch.device,
) -> Meeting:
    outer, inner = (inputs, outputs) if transposed else (outputs, inputs)
    place, tap, other = (torch.arange(n, device=device) for n in (outer, kernel, inner))
    meets = (place.view(-1, 1, 1) * stride - padding + tap.view(-1, 1) * dilation == other).to(dtype)
    meets = meets.transpose(0, 2) if transposed else meets  # (outputs, kernel, inputs)
    return Meeting(meets.sum(1), meets.sum(2))


_kept_meeting = lru_cache(maxsize=256)(_meeting)


def _sum_of_channels(x: Tensor, factors: Tensor, groups: int) -> Tensor:
    """Return the sum of the channels of each group, each times a factor: (images, groups, ...)."""
    if groups > 1:
        by_group = x.unflatten(1, (groups, -1)) * factors.view(groups, -1, *(1 for _ in x.shape[2:]))
        return by_group.sum(2)
    if has_channels_last(x):
        return x.permute(0, 2, 3, 1).matmul(factors).unsqueeze(1)
    return factors.matmul(x.flatten(2)).view(len(x), 1, *x.shape[2:])


def _sum_of_images(x: Tensor, factors: Tensor) -> Tensor:
    """Return the sum of the images, each times a factor: (1, channels, ...)."""
    if has_channels_last(x):
        pixels = x.permute(0, 2, 3, 1)
        return factors.matmul(pixels.flatten(1)).view(1, *pixels.shape[1:]).permute(0, 3, 1, 2)
    return factors.matmul(x.flatten(1)).view(1, *x.shape[1:])


def _along(x: Tensor, matrices: list[Tensor]) -> Tensor:
    """Multiply each spatial dimension of (images, channels, ...) by a matrix."""
    for dim, matrix in enumerate(matrices[:-1], 2):
        x = x.movedim(dim, -1).matmul(matrix).movedim(-1, dim)
    return x.matmul(matrices[-1])


def _empty(shape: torch.Size, like: Tensor) -> Tensor:
    """Return a tensor for its shape alone, in the memory layout of another: torch would convert it otherwise."""
    is_last = like.dim() == 4 and like.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if is_last else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)


@dataclass(frozen=True)
class MatmulProduct(Product):
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

    def rows(self, dim: int) -> Dims:
        return (-1,)

    def columns(self, shape: torch.Size) -> Dims:
        return (-2,)

    def absorbs_b(self, dims: Dims, dim: int) -> bool:
        return _varies_along(dims, dim, -2, -1) if self.transpose_b else _varies_along(dims, dim, -1, -2)

    def absorbs_a(self, dims: Dims, dim: int) -> bool:
        return _varies_along(dims, dim, -2, -1)

    def absorb_b(
        self, grad_output: Tensor, scale: Tensor, middle: Tensor, a_shape: torch.Size, b_shape: torch.Size
    ) -> Absorbed:
        scale, middle = (scale.mT, middle) if self.transpose_b else (scale, middle.mT)
        added = grad_output.matmul(middle)
        return Absorbed(scale, added.sum_to_size(*a_shape[:-1], 1))

    def absorb_a(
        self, grad_output: Tensor, scale: Tensor, middle: Tensor, a_shape: torch.Size, b_shape: torch.Size
    ) -> Absorbed:
        added = middle.mT.matmul(grad_output)
        if self.transpose_b:
            added = added.mT.sum_to_size(*b_shape[:-1], 1)
        else:
            added = added.sum_to_size(*b_shape[:-2], 1, b_shape[-1])
        return Absorbed(scale, added)

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
