"""Convolutions in one, two and three dimensions, plain and transposed."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic import Convolution, Operand, on_grid
from bitcycle.arithmetic.recipe import Granularity
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.layer import QuantizedLayer, weight_dims
from bitcycle.nn.registry import register


class ConvolutionLayer(QuantizedLayer):
    """What the two kinds share."""

    weight: Tensor
    bias: Tensor | None
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def convolve(self, product: Convolution, x: Tensor, pad_at_end: list[int] | None = None) -> Tensor:
        """The product; an input without a batch dimension gets one for the time being."""
        unbatched = x.dim() == len(self.stride) + 1
        if unbatched:
            x = x.unsqueeze(0)
        site = self.bitcycle.sites[""]
        bias = self.bias_on_grid("", self.bias)
        of_x = Operand(_activation_dims(site.recipe.activations, x))
        if pad_at_end is not None:
            x, of_x = F.pad(on_grid(site, x, of_x.dims, self.training, "a"), pad_at_end), Operand(ready=True)
        if product.transposed and product.groups > 1 and site.recipe.weights == "channel":
            # An output channel is a pair (group, column) of the weight, which no choice of dimensions expresses.
            weight = on_grid(site, self._by_group(), (1, *range(3, self.weight.dim() + 1)), self.training, "b")
            out = self.multiply("", product, x, weight.flatten(0, 1), bias, of_a=of_x, of_b=Operand(ready=True))
        else:
            of_weight = Operand(weight_dims(site.recipe.weights, self.weight, 1 if product.transposed else 0))
            out = self.multiply("", product, x, self.weight, bias, of_a=of_x, of_b=of_weight)
        return out.squeeze(0) if unbatched else out

    def _by_group(self) -> Tensor:
        return self.weight.unflatten(0, (self.groups, -1))


@register(nn.Conv1d, nn.Conv2d, nn.Conv3d)
class QuantizedConv(ConvolutionLayer):
    """A convolution: x per tensor, W per output channel. Padding is added after quantising, so zeros stay zero."""

    replaces = ("forward", "_conv_forward")
    padding: tuple[int, ...] | str
    padding_mode: str
    _reversed_padding_repeated_twice: list[int]

    def quantized_forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            # Padding copies values that are there already: it changes no range, so it may come first.
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = "valid"
        pad_at_end = None
        if padding == "valid":
            padding = (0,) * len(self.stride)
        elif isinstance(padding, str):  # "same": what an even number cannot split is one more at the end
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.weight.shape[2:], strict=True)]
            padding = tuple(total // 2 for total in totals)
            if any(total % 2 for total in totals):
                pad_at_end = [side for total in reversed(totals) for side in (0, total % 2)]
        return self.convolve(Convolution(self.stride, padding, self.dilation, self.groups), input, pad_at_end)


@register(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
class QuantizedConvTranspose(ConvolutionLayer):
    """A transposed convolution: x per tensor, W per output channel (its second dimension)."""

    padding: tuple[int, ...]
    output_padding: tuple[int, ...]

    def quantized_forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        output_padding = self._output_padding(  # type: ignore[attr-defined]
            input,
            output_size,
            self.stride,
            self.padding,
            self.kernel_size,  # type: ignore[attr-defined]
            len(self.stride),
            self.dilation,
        )
        product = Convolution(self.stride, self.padding, self.dilation, self.groups, True, tuple(output_padding))
        return self.convolve(product, input)


def _activation_dims(granularity: Granularity, x: Tensor) -> Dims:
    if granularity == "tensor":
        return None
    kept = 1 if granularity == "channel" else 0
    return tuple(d for d in range(x.dim()) if d != kept)
