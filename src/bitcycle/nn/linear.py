"""Linear, and the base of layers like it."""

from __future__ import annotations

from torch import Tensor, nn

from bitcycle.arithmetic import LinearProduct, OperandSpec, Role
from bitcycle.arithmetic.recipe import Granularity
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
        bias = self.round_bias(site, bias) if recipe.bias else bias
        return self.multiply(site, LinearProduct(), x, weight, bias, a_spec=x_spec, b_spec=weight_spec)


@register(nn.Linear)
class QuantizedLinear(LinearLayer):
    """``y = x W^T + b``."""

    weight: Tensor
    bias: Tensor | None

    def quantized_forward(self, input: Tensor) -> Tensor:
        return self.linear_product("", input, self.weight, self.bias)
