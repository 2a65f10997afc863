"""transformers: its Conv1D, and attention in every model that uses its registry.

A converted attention module names bitcycle's function in a copy of its configuration. The model still makes masks for
the implementation it had, which also runs whenever the sites are in full precision.
"""

from __future__ import annotations

import copy
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface
from transformers.pytorch_utils import Conv1D

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.attention import AttentionLayer
from bitcycle.nn.interception import hide_products
from bitcycle.nn.layer import QuantizedLayer
from bitcycle.nn.linear import LinearLayer
from bitcycle.nn.registry import register, register_where, skip_where

IMPLEMENTATION = "bitcycle"


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


skip_where(lambda layer: layer.__name__.endswith("RotaryEmbedding"), Skip(SkipKind.POSITION_ANGLES))


@register_where(uses_attention_registry)
class QuantizedAttention(AttentionLayer):
    """The scores QK^T and the context PV of a model's attention. Its projections are separate layers."""

    config: Any
    float_config: Any
    """The configuration before conversion."""

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return ["scores", "context"]

    @classmethod
    def attach(cls, module: nn.Module) -> None:
        config: Any = copy.deepcopy(module.config)
        config._attn_implementation = IMPLEMENTATION
        module.float_config, module.config = module.config, config

    @classmethod
    def detach(cls, module: nn.Module) -> None:
        module.config = module.float_config
        del module.float_config

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        # The float forward runs. Where it computes attention, it calls quantized_attention below.
        return super(QuantizedLayer, self).forward(*arguments, **keywords)  # type: ignore[misc]

    @property
    def was_eager(self) -> bool:
        """Whether the model computed attention eagerly, which also returns the attention weights."""
        return bool(self.float_config._attn_implementation == "eager")

    def is_causal_without_mask(self, is_causal: bool | None) -> bool:
        """Return whether a missing mask means a causal one, as in fused implementations but not in the eager one."""
        if self.was_eager:
            return False
        return getattr(self, "is_causal", True) if is_causal is None else is_causal

    def float_attention(self) -> Callable[..., tuple[Tensor, Tensor | None]]:
        """Return the implementation that the model had."""
        eager: Any = getattr(sys.modules[self.bitcycle.original.__module__], "eager_attention_forward", None)
        implementation: Callable[..., tuple[Tensor, Tensor | None]] = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.float_config._attn_implementation, eager
        )
        return implementation


def quantized_attention(
    module: QuantizedAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention at the sites' bits. The signature is that of transformers; query (batch, heads, length, d)."""
    if all(site.in_full_precision(module.training) for site in module.bitcycle.sites.values()):
        given = {"is_causal": is_causal, "position_bias": position_bias, "softcap": softcap}
        others.update({name: argument for name, argument in given.items() if argument is not None})
        with hide_products():
            return module.float_attention()(
                module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **others
            )
    groups = getattr(module, "num_key_value_groups", 1)
    if groups > 1:
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    fused = not module.was_eager
    mask = _additive(attention_mask, query, key, causal=module.is_causal_without_mask(is_causal), fused=fused)
    if position_bias is not None:
        mask = position_bias if mask is None else mask + position_bias
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    sinks = others.get("s_aux")
    context, weights = module.attend(query, key, value, mask, scale, dropout, softcap, sinks, fused)
    return context.transpose(1, 2).contiguous(), None if fused else weights


AttentionInterface.register(IMPLEMENTATION, quantized_attention)


def _additive(mask: Any, query: Tensor, key: Tensor, causal: bool, fused: bool) -> Tensor | None:
    """Return the model's mask as one to add to the scores. A Boolean mask is true where attention is allowed."""
    queries, keys = query.shape[2], key.shape[2]
    lowest = -math.inf if fused else torch.finfo(query.dtype).min  # rows that are masked altogether are zero, or a mean
    if mask is None:
        if not causal or queries == 1:
            return None
        mask = torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril()
    if not isinstance(mask, Tensor) or mask.dim() == 3:
        raise ValueError(
            "quantised attention needs a 2-D or 4-D mask: load the model with attn_implementation='sdpa' or 'eager'"
        )
    if mask.dim() == 2 and mask.shape != (queries, keys):  # (batch, keys), the layout of flash attention
        raise ValueError("quantised attention needs a model loaded with attn_implementation='sdpa' or 'eager'")
    if mask.dtype is torch.bool:
        return torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, lowest)
    return mask[..., :keys]
