"""Scaled dot-product attention: two products with a softmax between them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bitcycle.nn.functions.sites import DiscoveredSites
from bitcycle.nn.site_names import join_names


def compute_attention(
    call: DiscoveredSites,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute scaled dot-product attention at the sites ``scores`` and ``context``."""
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], dim=-3) for x in (key, value))
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -math.inf)
    if is_causal:
        allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        attn_mask = query.new_zeros(()) if attn_mask is None else attn_mask  # fused kernels take both
        attn_mask = attn_mask.masked_fill(~allowed, -math.inf)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    names = join_names(call.local, "scores"), join_names(call.local, "context")
    return call.attend(query, key, value, attn_mask, factor, dropout_p, fused=True, sites=names)[0]
