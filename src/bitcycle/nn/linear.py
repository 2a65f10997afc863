"""Linear and Bilinear."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic import (
    LinearProduct,
    OperandSpec,
    Role,
    TrilinearProduct,
    computing,
    report_product,
    round_grad_output,
    round_operand,
)
from bitcycle.arithmetic.recipe import Granularity, Recipe
from bitcycle.nn.layer import QuantizedLayer, feature_dims, weight_dims
from bitcycle.nn.registry import register


class LinearLayer(QuantizedLayer):
    """Base of layers that compute linear products."""

    def linear_product(
        self,
        site: str,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        granularity: Granularity | None = None,
    ) -> Tensor:
        """Compute ``x weight^T + bias`` at a site's bits. By default ``x`` has the granularity of activations."""
        recipe = self.bitcycle.recipe
        x_spec = OperandSpec(feature_dims(granularity or recipe.activations, x), role=Role.ACTIVATION)
        weight_spec = OperandSpec(weight_dims(recipe.weights, weight), role=Role.WEIGHT)
        bias = self.round_bias(site, bias)
        return self.multiply(site, LinearProduct(), x, weight, bias, a_spec=x_spec, b_spec=weight_spec)


@register(nn.Linear)
class QuantizedLinear(LinearLayer):
    """``y = x W^T + b``."""

    weight: Tensor
    bias: Tensor | None

    def quantized_forward(self, input: Tensor) -> Tensor:
        return self.linear_product("", input, self.weight, self.bias)


@register(nn.Bilinear)
class QuantizedBilinear(QuantizedLayer):
    """``y_o = x1^T W_o x2 + b_o``: one product of three operands, each on its grid."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def refuses(cls, module: nn.Module, recipe: Recipe) -> str | None:
        return None if recipe.family.block is None else "a product of three operands sums over two dimensions at once"

    def quantized_forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        site = self.bitcycle.sites[""]
        recipe = site.recipe
        x1, x2 = (
            round_operand(site, x, feature_dims(recipe.activations, x), self.training, name, Role.ACTIVATION)
            for name, x in (("a", input1), ("a2", input2))
        )
        dims = weight_dims(recipe.weights, self.weight)
        weight = round_operand(site, self.weight, dims, self.training, "b", Role.WEIGHT)
        bias = self.round_bias("", self.bias)
        with computing(site):
            out = F.bilinear(x1, x2, weight, bias)
        roles = Role.ACTIVATION, Role.WEIGHT
        counted = (
            input2 if input2.requires_grad else input1
        )  # the counter records one input: prefer one with a gradient
        return round_grad_output(site, report_product(site, TrilinearProduct(), counted, self.weight, out, roles))
