"""The torch functions that multiply, and how each computes at its site.

A function runs unchanged where its operands are no dense tensors of floats or its site is in full precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from bitcycle.nn.functions.attention import compute_attention
from bitcycle.nn.functions.composed import Function
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
    sum_of_bmm,
)
from bitcycle.nn.functions.sums import at_operands, compute_einsum, compute_tensordot, compute_vector_products


def _functions(name: str, compute: Callable[..., Any]) -> dict[Any, tuple[str, Callable[..., Any]]]:
    """Return the entries of a function and of the method of the same name; one of the two may not exist."""
    found = (getattr(owner, name, None) for owner in (torch, torch.Tensor))
    return {function: (name.removesuffix("_"), compute) for function in found if function is not None}


def _sums(name: str, multiply: Callable[..., Any], func: Function) -> dict[Any, tuple[str, Callable[..., Any]]]:
    """Return the entries of functions that add a product to their input, also in place."""
    in_place = _functions(f"{name}_", adding(multiply, func, in_place=True))
    return {**_functions(name, adding(multiply, func, in_place=False)), **in_place}


PRODUCTS: dict[Any, tuple[str, Callable[..., Any]]] = {
    F.linear: ("linear", compute_linear),
    F.linear_cross_entropy: ("linear_cross_entropy", compute_linear_cross_entropy),
    torch.conv_tbc: ("conv_tbc", compute_time_first_convolution),
    torch.conv1d: ("conv1d", compute_convolution),
    torch.conv2d: ("conv2d", compute_convolution),
    torch.conv3d: ("conv3d", compute_convolution),
    torch.conv_transpose1d: ("conv_transpose1d", compute_transposed_convolution),
    torch.conv_transpose2d: ("conv_transpose2d", compute_transposed_convolution),
    torch.conv_transpose3d: ("conv_transpose3d", compute_transposed_convolution),
    F.scaled_dot_product_attention: ("sdpa", compute_attention),
    **dict.fromkeys(
        (torch.matmul, torch.linalg.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__), ("matmul", compute_matmul)
    ),
    torch.Tensor.__rmatmul__: ("matmul", compute_reflected_matmul),
    **_functions("bmm", compute_matmul),
    **_functions("mm", compute_matmul),
    **_sums("addmm", compute_matmul, torch.mm),
    **_sums("baddbmm", compute_matmul, torch.bmm),
    **_sums("addbmm", compute_summed_matmul, sum_of_bmm),
    **_sums("addmv", compute_matmul, torch.mv),
    **_functions("mv", compute_matmul),
    **_functions("dot", compute_matmul),
    **_functions("vdot", compute_matmul),
    **_functions("inner", at_operands(0, 1)),
    torch.linalg.vecdot: ("vecdot", compute_vector_products),
    torch.linalg.multi_dot: ("multi_dot", compute_chain),
    torch.chain_matmul: ("chain_matmul", compute_chain),
    torch.einsum: ("einsum", compute_einsum),
    torch.tensordot: ("tensordot", compute_tensordot),
    F.bilinear: ("bilinear", at_operands(0, 2)),
}
"""The torch functions that multiply: the name of their site, and how they compute at it."""

for _function in (getattr(torch, "_grouped_mm", None), getattr(F, "grouped_mm", None)):
    if _function is not None:
        PRODUCTS[_function] = ("grouped_mm", compute_grouped_matmul)
