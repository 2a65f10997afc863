"""MultiheadAttention: the projections, the scores QK^T and the context PV are sites. Softmax is in full precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic import MatmulProduct, OperandSpec, Role
from bitcycle.arithmetic.product_function import output_again
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.layer import QuantizedLayer, feature_dims
from bitcycle.nn.linear import LinearLayer
from bitcycle.nn.registry import register


def _scores(products: Tensor, softcap: float | None, mask: Tensor | None) -> Tensor:
    scores = products if softcap is None else softcap * torch.tanh(products / softcap)
    return scores if mask is None else scores + mask


class _Softmax(torch.autograd.Function):
    """A softmax of scores that computes them again for its backward pass, where torch saves the weights."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, again: Callable[[], Tensor], softcap: float | None, mask: Tensor | None
    ) -> Tensor:
        weights = scores.softmax(dim=-1)
        ctx.again, ctx.softcap, ctx.dtypes = again, softcap, (scores.dtype, weights.dtype)
        ctx.save_for_backward(mask)
        return weights

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        given, computed = ctx.dtypes
        scores = _scores(ctx.again(), ctx.softcap, *ctx.saved_tensors).to(given)
        weights = scores.softmax(dim=-1, dtype=computed)
        return torch._softmax_backward_data(grad_output, weights, -1, given), None, None, None


class AttentionLayer(QuantizedLayer):
    """Base of attention layers: the two products of attention."""

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        scale: float,
        dropout: float,
        softcap: float | None = None,
        sinks: Tensor | None = None,
        fused: bool = False,
        sites: tuple[str, str] = ("scores", "context"),
    ) -> tuple[Tensor, Tensor]:
        """Return ``softmax(scale Q K^T + mask) V`` and the attention weights.

        Args:
            query: Queries, (batch, heads, queries, features).
            key: Keys, (batch, heads, keys, features).
            value: Values, (batch, heads, keys, features).
            mask: Added to the scores.
            scale: Multiplies the queries.
            dropout: Dropout probability of the attention weights.
            softcap: Bounds the scores to ``softcap * tanh(scores / softcap)``.
            sinks: One extra score per head that takes part in the softmax but has no value.
            fused: Whether the float layer calls ``F.scaled_dot_product_attention``. The result is then 0, else NaN, in
                rows that are masked altogether.
            sites: The local names of the two sites.
        """
        masked_rows = None
        if fused and mask is not None:
            masked_rows = mask.isneginf().all(-1, keepdim=True)
            mask = mask.masked_fill(masked_rows, 0)  # NaN would stay in their gradients
        products = self.attention_product(sites[0], MatmulProduct(transpose_b=True), query * scale, key)
        scores = _scores(products, softcap, mask)
        if sinks is not None:
            scores = torch.cat([scores, sinks.view(-1, 1, 1).expand(*scores.shape[:-1], 1)], dim=-1)
        again = None if sinks is not None or torch.compiler.is_compiling() else output_again(products)
        weights = scores.softmax(dim=-1) if again is None else _Softmax.apply(scores, again, softcap, mask)
        if sinks is not None:
            weights = weights[..., :-1]
        weights = F.dropout(weights, dropout)
        context = self.attention_product(sites[1], MatmulProduct(), weights, value)
        return context if masked_rows is None else context.masked_fill(masked_rows, 0), weights

    def attention_product(self, site: str, product: MatmulProduct, a: Tensor, b: Tensor) -> Tensor:
        """Compute one of the two products at its site."""
        recipe = self.bitcycle.recipe
        a_spec, b_spec = (
            OperandSpec(feature_dims(recipe.attention, x), role=Role.ACTIVATION, with_zero=recipe.attention_zero)
            for x in (a, b)
        )
        return self.multiply(site, product, a, b, a_spec=a_spec, b_spec=b_spec)


@register(nn.MultiheadAttention)
class QuantizedMultiheadAttention(AttentionLayer, LinearLayer):
    """``softmax(Q K^T / sqrt(d)) V`` per head, with its four projections."""

    owns = ("out_proj",)  # its forward is never called: the layer uses its weight directly
    num_heads: int
    head_dim: int
    dropout: float
    batch_first: bool
    add_zero_attn: bool
    in_proj_weight: Tensor | None
    in_proj_bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None
    out_proj: nn.Linear

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return ["q_proj", "k_proj", "v_proj", "scores", "context", "out_proj"]

    def quantized_forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if is_causal and attn_mask is None:
            raise RuntimeError("is_causal=True needs attn_mask, which must be given with it")
        if key.dim() != query.dim() or value.shape[:-1] != key.shape[:-1]:
            raise ValueError(f"the shapes of query {query.shape}, key {key.shape} and value {value.shape} do not match")
        unbatched = query.dim() == 2
        if unbatched:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if len(key) != len(query):
            raise ValueError(f"query has a batch of {len(query)}, but key and value have a batch of {len(key)}")
        mask = self._merge(attn_mask, key_padding_mask, query, key)
        operands = zip((query, key, value), self._projections(), strict=True)
        q, k, v = (self.linear_product(site, x, weight, bias) for x, (site, weight, bias) in operands)
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (torch.cat([x, b.expand(len(x), 1, -1)], 1) for x, b in ((k, self.bias_k), (v, self.bias_v)))
        q, k, v = (x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for x in (q, k, v))
        if self.add_zero_attn:
            k, v = (torch.cat([x, torch.zeros_like(x[:, :, :1])], 2) for x in (k, v))
        if mask is not None:  # appended keys are never masked
            mask = F.pad(mask, (0, k.shape[2] - key.shape[1]))
        scale = 1 / math.sqrt(self.head_dim)
        dropout = self.dropout if self.training else 0.0
        context, weights = self.attend(q, k, v, mask, scale, dropout, fused=not need_weights)
        context = context.transpose(1, 2).flatten(2)
        out = self.linear_product("out_proj", context, self.out_proj.weight, self.out_proj.bias)
        shown_weights = (weights.mean(1) if average_attn_weights else weights) if need_weights else None
        if unbatched:
            return out.squeeze(0), None if shown_weights is None else shown_weights.squeeze(0)
        return out if self.batch_first else out.transpose(0, 1), shown_weights

    def _projections(self) -> list[tuple[str, Tensor, Tensor | None]]:
        """Return the sites of query, key and value, with their weights and biases."""
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = tuple(getattr(self, f"{name}_proj_weight") for name in "qkv")
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return list(zip(("q_proj", "k_proj", "v_proj"), weights, biases, strict=True))

    def weights_on_grid(self) -> Iterator[tuple[str, Tensor, Dims]]:
        for site, weight, bias in (*self._projections(), ("out_proj", self.out_proj.weight, self.out_proj.bias)):
            yield from self.weight_and_bias(site, weight, bias)

    def _merge(self, mask: Tensor | None, padding: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
        """Merge both masks into one to add to scores of shape (batch, heads, queries, keys)."""
        batch, queries, keys = *query.shape[:2], key.shape[1]
        merged = None
        if mask is not None:
            shapes = [(queries, keys), (batch * self.num_heads, queries, keys)]
            merged = _additive(mask, "attn_mask", shapes, query.dtype)
            if merged.dim() == 3:  # one mask per sample and head
                merged = merged.unflatten(0, (batch, self.num_heads))
        if padding is not None:
            added = _additive(padding, "key_padding_mask", [(batch, keys)], query.dtype)[:, None, None, :]
            merged = added if merged is None else merged + added
        return merged


def _additive(mask: Tensor, name: str, shapes: list[tuple[int, ...]], dtype: torch.dtype) -> Tensor:
    """Return a mask to add to the scores: minus infinity where a Boolean mask is true."""
    if tuple(mask.shape) not in shapes:
        raise ValueError(f"{name} must have the shape {' or '.join(map(str, shapes))}, got {tuple(mask.shape)}")
    if mask.dtype is torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)
    if not mask.is_floating_point():
        raise TypeError(f"{name} must be Boolean or floating-point, got {mask.dtype}")
    return mask.to(dtype)
