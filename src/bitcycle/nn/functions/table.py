"""The torch functions that multiply, and how each computes at its site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from bitcycle.nn.functions import layers, matrices, sums
from bitcycle.nn.functions.sites import ProductFunction

_COMPUTE: dict[str, Callable[..., Any]] = {
    "linear": layers.compute_linear,
    "linear_cross_entropy": layers.compute_linear_cross_entropy,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), layers.compute_convolution),
    **dict.fromkeys(
        ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), layers.compute_transposed_convolution
    ),
    "conv_tbc": layers.compute_time_first_convolution,
    **dict.fromkeys(("matmul", "__matmul__", "mm", "bmm", "mv", "dot", "vdot"), matrices.compute_matmul),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), matrices.adding(matrices.compute_matmul, in_place=False)),
    **dict.fromkeys(("addmm_", "baddbmm_", "addmv_"), matrices.adding(matrices.compute_matmul, in_place=True)),
    "addbmm": matrices.adding(matrices.compute_summed_matmul, in_place=False),
    "addbmm_": matrices.adding(matrices.compute_summed_matmul, in_place=True),
    **dict.fromkeys(("multi_dot", "chain_matmul"), matrices.compute_chain),
    **dict.fromkeys(("grouped_mm", "_grouped_mm"), matrices.compute_grouped_matmul),
    "inner": sums.compute_inner,
    "bilinear": sums.compute_bilinear,
    "einsum": sums.compute_einsum,
    "tensordot": sums.compute_tensordot,
}
"""How functions compute, by name. Each name means the function and the method, of which one may not exist."""

PRODUCTS: dict[Any, ProductFunction] = {
    function: ProductFunction(name.strip("_"), compute)
    for name, compute in _COMPUTE.items()
    for owner in (torch, torch.Tensor, torch.linalg, F)
    if (function := getattr(owner, name, None)) is not None
}
"""The torch functions that multiply."""

PRODUCTS[torch.Tensor.__rmatmul__] = ProductFunction("matmul", matrices.compute_reflected_matmul)
PRODUCTS[torch.linalg.vecdot] = ProductFunction(
    "vecdot", sums.compute_vector_products, counted_as=sums.multiply_vectors
)
PRODUCTS[F.scaled_dot_product_attention] = ProductFunction("sdpa", layers.compute_attention, ("scores", "context"))
