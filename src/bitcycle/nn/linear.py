"""Linear and Bilinear."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic import Linear, Operand, Trilinear, computing, error_on_grid, multiplied, on_grid
from bitcycle.nn.layer import QuantizedLayer, feature_dims, weight_dims
from bitcycle.nn.registry import register


class LinearProduct(QuantizedLayer):
    """The one product of a linear layer, for all layers that are one in some form."""

    def linear(self, site: str, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """``x weight^T + bias`` at a site's bits."""
        recipe = self.bitcycle.recipe
        of_x = Operand(feature_dims(recipe.activations, x))
        of_weight = Operand(weight_dims(recipe.weights, weight))
        return self.multiply(site, Linear(), x, weight, self.bias_on_grid(site, bias), of_a=of_x, of_b=of_weight)


@register(nn.Linear)
class QuantizedLinear(LinearProduct):
    """``y = x W^T + b``, x per tensor, W per output channel, b in full precision."""

    weight: Tensor
    bias: Tensor | None

    def quantized_forward(self, input: Tensor) -> Tensor:
        return self.linear("", input, self.weight, self.bias)


@register(nn.Bilinear)
class QuantizedBilinear(QuantizedLayer):
    """``y_o = x1^T W_o x2 + b_o``: one product of three operands, each on the grid."""

    weight: Tensor
    bias: Tensor | None

    def quantized_forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        site = self.bitcycle.sites[""]
        recipe = site.recipe
        x1, x2 = (
            on_grid(site, x, feature_dims(recipe.activations, x), self.training, name)
            for name, x in (("a", input1), ("a2", input2))
        )
        weight = on_grid(site, self.weight, weight_dims(recipe.weights, self.weight), self.training, "b")
        bias = self.bias_on_grid("", self.bias)
        with computing(site):
            out = F.bilinear(x1, x2, weight, bias)
        return error_on_grid(site, multiplied(site, Trilinear(), input1, self.weight, out))
