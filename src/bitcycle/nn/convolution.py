"""Convolutions of one, two and three dimensions, plain and transposed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic import ConvolutionProduct, OperandSpec, Role, Site, round_operand
from bitcycle.arithmetic.recipe import Granularity, Recipe
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.layer import QuantizedLayer, weight_dims
from bitcycle.nn.registry import register


class ConvolutionLayer(QuantizedLayer):
    """Base of plain and transposed convolutions."""

    weight: Tensor
    bias: Tensor | None
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @classmethod
    def refuses(cls, module: nn.Module, recipe: Recipe) -> str | None:
        if recipe.family.block is None:
            return None
        layer: Any = module
        if layer.groups > 1 and layer.groups == layer.in_channels:
            return f"with one channel per group, each block of the grid {recipe.grid!r} would be a single value"
        if recipe.hadamard:
            return "its weight gradient sums over shifted positions, in which Hadamard matrices do not cancel"
        return None

    def convolve(
        self, site: str, x: Tensor, weight: Tensor, weight_spec: OperandSpec, bias: Tensor | None, *geometry: Any
    ) -> Tensor:
        """Compute a convolution at a site. An input may have no batch.

        The geometry is the stride, padding, dilation and groups; of a transposed convolution also the output padding.
        """
        if x.dim() != weight.dim():
            return self.convolve(site, x.unsqueeze(0), weight, weight_spec, bias, *geometry).squeeze(0)
        stride, padding, dilation, groups, *output_padding = geometry
        own = self.bitcycle.site(site)
        bias = self.round_bias(site, bias)
        x_spec = OperandSpec(activation_dims(own.recipe.activations, x), role=Role.ACTIVATION)
        dims = weight.dim() - 2
        stride, dilation = _per_dimension(stride, dims), _per_dimension(dilation, dims)
        if padding == "same":
            totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
            if any(total % 2 for total in totals):  # an odd total has one more element at the end
                if not own.settings.grid.has_zero:  # zeros stay zero
                    x = round_operand(own, x, x_spec, self.training, "a")
                    x_spec = x_spec._replace(already_rounded=True)
                x = F.pad(x, [side for total in reversed(totals) for side in (0, total % 2)])
            padding = tuple(total // 2 for total in totals)
        padding = _per_dimension(0 if padding == "valid" else padding, dims)
        transposed = (True, _per_dimension(output_padding[0], dims)) if output_padding else ()
        product = ConvolutionProduct(stride, padding, dilation, groups, *transposed)
        return self.multiply(site, product, x, weight, bias, a_spec=x_spec, b_spec=weight_spec)

    def transposed_weight(self, site: str, weight: Tensor, groups: int) -> tuple[Tensor, OperandSpec]:
        """Return the weight of a transposed convolution and how it is put on its grid, with groups already rounded."""
        own = self.bitcycle.site(site)
        on_grid, dims = transposed_weight_on_grid(own, weight, groups)
        spec = OperandSpec(dims, role=Role.WEIGHT)
        if on_grid is weight:
            return weight, spec
        rounded = round_operand(own, on_grid, spec, self.training, "b").flatten(0, 1)
        return rounded, OperandSpec(already_rounded=True, role=Role.WEIGHT)


@register(nn.Conv1d, nn.Conv2d, nn.Conv3d)
class QuantizedConv(ConvolutionLayer):
    """A convolution. Zero padding is added after rounding, so that zeros stay zero."""

    replaces = ("forward", "_conv_forward")
    padding: tuple[int, ...] | str
    padding_mode: str
    _reversed_padding_repeated_twice: list[int]

    def quantized_forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            # These modes copy values of the input, which does not change its range: padding may come before rounding.
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = "valid"
        weight_spec = OperandSpec(weight_dims(self.bitcycle.recipe.weights, self.weight), role=Role.WEIGHT)
        geometry = (self.stride, padding, self.dilation, self.groups)
        return self.convolve("", input, self.weight, weight_spec, self.bias, *geometry)


@register(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
class QuantizedConvTranspose(ConvolutionLayer):
    """A transposed convolution. The output channels of its weight are the second dimension."""

    padding: tuple[int, ...]
    output_padding: tuple[int, ...]

    def weights_on_grid(self) -> Iterator[tuple[str, Tensor, Dims]]:
        yield "", *transposed_weight_on_grid(self.bitcycle.sites[""], self.weight, self.groups)
        if self.bias is not None and self.bitcycle.recipe.bias:
            yield "", self.bias, None

    def quantized_forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        layer: Any = self
        output_padding = layer._output_padding(
            input, output_size, self.stride, self.padding, layer.kernel_size, len(self.stride), self.dilation
        )
        weight, weight_spec = self.transposed_weight("", self.weight, self.groups)
        geometry = (self.stride, self.padding, self.dilation, self.groups, output_padding)
        return self.convolve("", input, weight, weight_spec, self.bias, *geometry)


def transposed_weight_on_grid(site: Site, weight: Tensor, groups: int) -> tuple[Tensor, Dims]:
    """Return the weight of a transposed convolution, or a view of it by groups, and which dimensions share a grid."""
    if groups > 1 and site.recipe.weights == "channel" and site.settings.grid.block is None:
        # An output channel is a pair (group, column) of the weight, which no set of its dimensions describes.
        by_group = weight.unflatten(0, (groups, -1))
        return by_group, (1, *range(3, by_group.dim()))
    return weight, weight_dims(site.recipe.weights, weight, channel=1)


def activation_dims(granularity: Granularity, x: Tensor) -> Dims:
    """Return the dimensions that share a grid, for activations of shape (batch, channels, ...)."""
    if granularity == "tensor":
        return None
    if granularity == "row" and x.dim() == 3 and x.shape[1] > 1:  # a position of a sequence
        return (1,)
    own_grids = 1 if granularity == "channel" else 0
    return tuple(d for d in range(x.dim()) if d != own_grids)


def _per_dimension(value: Any, dimensions: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * dimensions if len(values) == 1 else values
