"""transformers: its Conv1D, and the names of attention in every model that uses its registry."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.functional_ops import FunctionalOps
from bitcycle.nn.linear import LinearLayer
from bitcycle.nn.registry import register, register_where


@register(Conv1D)
class QuantizedConv1D(LinearLayer):
    """``y = x W + b``: a linear layer that stores its weight transposed."""

    weight: Tensor
    bias: Tensor

    def quantized_forward(self, x: Tensor) -> Tensor:
        return self.linear_product("", x, self.weight.t(), self.bias)

    def weights_on_grid(self) -> Iterator[tuple[str, Tensor, Dims]]:
        yield from self.weight_and_bias("", self.weight, self.bias, channel=1)


def uses_attention_registry(layer: type[nn.Module]) -> bool:
    """Return whether the ``forward`` of a class looks up attention in transformers' registry of implementations."""
    code = getattr(inspect.unwrap(layer.forward), "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


@register_where(uses_attention_registry)
class AttentionOfTransformers(FunctionalOps):
    """Attention whose products are the sites ``scores`` and ``context``, if it calls torch's attention.

    Its projections are separate layers.
    """

    own_product = "sdpa"

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        implementation = getattr(module.config, "_attn_implementation", None)
        return super().site_names(module, recipe) if implementation == "sdpa" else []
