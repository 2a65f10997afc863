"""torch's Transformer encoder, whose fused evaluation path would bypass the sites inside it.

In evaluation ``TransformerEncoderLayer`` passes all weights to one fused kernel and calls none of its children, and
``TransformerEncoder`` packs padded batches for that kernel. Once converted, both call their children, as in training.
The decoder has no such path and needs no conversion.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.nn.interception import hide_products
from bitcycle.nn.layer import ConvertedModule, QuantizedLayer
from bitcycle.nn.registry import register
from bitcycle.nn.relu import relu


class FusedContainer(QuantizedLayer):
    """A container without a product of its own, whose float ``forward`` may bypass its children."""

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return []

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        layers = [module for module in self.modules() if isinstance(module, ConvertedModule)]  # type: ignore[attr-defined]
        if all(site.in_full_precision(self.training) for layer in layers for site in layer.bitcycle.sites.values()):
            with hide_products():  # a mode would turn the fused path off
                return super(QuantizedLayer, self).forward(*arguments, **keywords)  # type: ignore[misc]
        return self.quantized_forward(*arguments, **keywords)


@register(nn.TransformerEncoderLayer)
class QuantizedTransformerEncoderLayer(FusedContainer):
    """Attention and feed-forward block, each with its residual and norm, before or after."""

    norm1: nn.Module
    norm2: nn.Module
    norm_first: bool

    @classmethod
    def attach(cls, module: Any) -> None:
        if module.activation is F.relu:
            module.activation = relu

    @classmethod
    def detach(cls, module: Any) -> None:
        if module.activation is relu:
            module.activation = F.relu

    def quantized_forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal)  # type: ignore[attr-defined]

        feed: Any = self._ff_block  # type: ignore[attr-defined]
        if self.norm_first:
            x = src + attend(self.norm1(src))
            return x + feed(self.norm2(x))
        x = self.norm1(src + attend(src))
        return self.norm2(x + feed(x))


@register(nn.TransformerEncoder)
class QuantizedTransformerEncoder(FusedContainer):
    """A stack of layers and a norm."""

    layers: nn.ModuleList
    norm: nn.Module | None

    def quantized_forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        if is_causal and mask is None:
            raise RuntimeError("is_causal=True needs mask, which must be given with it")
        for layer in self.layers:
            # The hint is_causal would only let a fused kernel leave out the mask.
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)
