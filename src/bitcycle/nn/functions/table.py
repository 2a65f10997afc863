"""The torch functions that multiply, and how each computes at its site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from bitcycle.nn.functions.attention import compute_attention
from bitcycle.nn.functions.layers import (
    compute_convolution,
    compute_linear,
    compute_linear_cross_entropy,
    compute_time_first_convolution,
    compute_transposed_convolution,
)
from bitcycle.nn.functions.matrices import (
    adding,
    compute_chain,
    compute_grouped_matmul,
    compute_matmul,
    compute_reflected_matmul,
    compute_summed_matmul,
)
from bitcycle.nn.functions.sites import ProductFunction
from bitcycle.nn.functions.sums import (
    compute_bilinear,
    compute_einsum,
    compute_inner,
    compute_tensordot,
    compute_vector_products,
    multiply_vectors,
)

_COMPUTE: dict[str, Callable[..., Any]] = {
    "linear": compute_linear,
    "linear_cross_entropy": compute_linear_cross_entropy,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), compute_convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), compute_transposed_convolution),
    "conv_tbc": compute_time_first_convolution,
    **dict.fromkeys(("matmul", "__matmul__", "mm", "bmm", "mv", "dot", "vdot"), compute_matmul),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), adding(compute_matmul, in_place=False)),
    **dict.fromkeys(("addmm_", "baddbmm_", "addmv_"), adding(compute_matmul, in_place=True)),
    "addbmm": adding(compute_summed_matmul, in_place=False),
    "addbmm_": adding(compute_summed_matmul, in_place=True),
    **dict.fromkeys(("multi_dot", "chain_matmul"), compute_chain),
    **dict.fromkeys(("grouped_mm", "_grouped_mm"), compute_grouped_matmul),
    "inner": compute_inner,
    "bilinear": compute_bilinear,
    "einsum": compute_einsum,
    "tensordot": compute_tensordot,
}
"""How functions compute, by name. Each name means the function and the method, of which one may not exist."""

PRODUCTS: dict[Any, ProductFunction] = {
    function: ProductFunction(name.strip("_"), compute)
    for name, compute in _COMPUTE.items()
    for owner in (torch, torch.Tensor, torch.linalg, F)
    if (function := getattr(owner, name, None)) is not None
}
"""The torch functions that multiply."""

PRODUCTS[torch.Tensor.__rmatmul__] = ProductFunction("matmul", compute_reflected_matmul)
PRODUCTS[torch.linalg.vecdot] = ProductFunction("vecdot", compute_vector_products, counted_as=multiply_vectors)
PRODUCTS[F.scaled_dot_product_attention] = ProductFunction("sdpa", compute_attention, ("scores", "context"))
