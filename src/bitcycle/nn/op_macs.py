"""Multiply-accumulates of torch's own operations, for products that run outside any site.

Each rule takes the arguments of an operation, as the dispatcher passes them, and its result. It returns the products
inside the operation with their operands and multiply-accumulates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bitcycle.arithmetic.products import TrilinearProduct


class OpProduct(NamedTuple):
    """One product of an operation."""

    a: Tensor
    b: Tensor
    macs: int


MacRule = Callable[[tuple[Any, ...], Any], list[OpProduct]]


def _matrix(first: int) -> MacRule:
    """Return the rule for (..., n, k) x (..., k, m), with the operands at positions ``first`` and ``first + 1``.

    Of a sparse operand only the stored values are multiplied.
    """

    def rule(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
        a, b = args[first], args[first + 1]
        a_dense, b_dense = (x.layout is torch.strided for x in (a, b))
        if a_dense and b_dense:
            return [OpProduct(a, b, out.numel() * a.shape[-1])]
        if a_dense:
            return [OpProduct(a, b, _stored(b) * a.shape[-2])]
        if b_dense:
            return [OpProduct(b, a, _stored(a) * b.shape[-1])]
        columns, rows = (x.to_sparse_coo()._indices()[i].bincount(minlength=len(b)) for x, i in ((a, 1), (b, 0)))
        return [OpProduct(a, b, int((columns * rows).sum()))]

    return rule


def _stored(x: Tensor) -> int:
    """Return how many values a tensor of any layout stores."""
    if x.layout is torch.strided:
        return x.numel()
    return (x._values() if x.layout is torch.sparse_coo else x.values()).numel()


def _summed_over_batch(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
    a, b = args[1], args[2]
    return [OpProduct(a, b, a.numel() * b.shape[-1])]


def _vector(first: int) -> MacRule:
    def rule(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
        a, b = args[first], args[first + 1]
        return [OpProduct(a, b, _stored(a))]

    return rule


def _linear(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
    a, b = args[0], args[1]
    return [OpProduct(a, b, a.numel() * b.shape[0])]


def _convolution(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
    a, b, transposed = args[0], args[1], args[6]
    positions = a if transposed else out
    return [OpProduct(a, b, positions.numel() * b.shape[1:].numel())]


def _attention(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
    query, key, value = args[:3]
    scores = query.shape[:-1].numel() * key.shape[-2]
    return [OpProduct(query, key, scores * query.shape[-1]), OpProduct(query, value, scores * value.shape[-1])]


def _grouped(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
    """Count a product per group. The groups divide the rows of a matrix ``a``, or the columns of a matrix ``b``."""
    a, b = args[0], args[1]
    if a.dim() == 3 and b.dim() == 2:
        return [OpProduct(a, b, b.numel() * a.shape[1])]
    return [OpProduct(a, b, a.numel() * b.shape[-1])]


def _trilinear(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
    # Of both inputs, one that needs a gradient stands for the other.
    x, weight = args[2] if args[2].requires_grad else args[0], args[1]
    return [OpProduct(x, weight, TrilinearProduct().macs(x.shape, weight.shape[-3:], out.shape))]


def _sampled(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
    """Count a product of which only the values are computed that a sparse matrix stores."""
    pattern, a, b = args[:3]
    return [OpProduct(a, b, _stored(pattern) * a.shape[-1])]


def _time_first_convolution(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
    a, b = args[0], args[1]
    return [OpProduct(a, b, out.numel() * b.shape[:2].numel())]


RULES: dict[str, MacRule] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "_int_mm", "_scaled_mm", "_scaled_mm_v2"), _matrix(0)),
    **dict.fromkeys(("_sparse_mm", "_sparse_sparse_matmul", "_sparse_mm_reduce_impl", "hspmm"), _matrix(0)),
    **dict.fromkeys(("addmm", "baddbmm", "_addmm_activation", "_sparse_addmm", "sspaddmm"), _matrix(1)),
    "sparse_sampled_addmm": _sampled,
    "addbmm": _summed_over_batch,
    **dict.fromkeys(("mv", "dot", "vdot"), _vector(0)),
    "addmv": _vector(1),
    "linear": _linear,
    "convolution": _convolution,
    "conv_tbc": _time_first_convolution,
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_fused_attention_overrideable",
            "_scaled_dot_product_attention_math_for_mps",
            "flex_attention",
        ),
        _attention,
    ),
    **dict.fromkeys(("_grouped_mm", "_scaled_grouped_mm", "_scaled_grouped_mm_v2"), _grouped),
    "_trilinear": _trilinear,
}
"""Rules for the operations that can be counted, by name."""

UNCOUNTED = {
    *("lstm", "gru", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell"),
    *("mkldnn_rnn_layer", "_cudnn_rnn", "miopen_rnn", "_lstm_mps"),
    *("_transformer_encoder_layer_fwd", "_native_multi_head_attention", "_triton_multi_head_attention"),
    *("_triton_scaled_dot_attention", "_flash_attention_forward", "_flash_attention_forward_no_dropout_inplace"),
    *("_efficient_attention_forward", "_cudnn_attention_forward"),
    *("_cdist_forward", "_pdist_forward", "_euclidean_dist", "linalg_matrix_exp", "_foreach_mm"),
    *("while_loop", "scan", "map_impl"),  # they call functions, whose products are not seen
    *("_convolution", "convolution_overrideable", "_mps_convolution", "_mps_convolution_transpose"),
    *("_conv_depthwise2d", "conv_depthwise3d", "_slow_conv2d_forward", "slow_conv3d_forward"),
    *("slow_conv_dilated2d", "slow_conv_dilated3d", "slow_conv_transpose2d", "slow_conv_transpose3d"),
    *("_nnpack_spatial_convolution", "mkldnn_convolution", "mkldnn_linear"),
    *("cudnn_convolution", "cudnn_convolution_transpose", "cudnn_convolution_relu", "cudnn_convolution_add_relu"),
    *("miopen_convolution", "miopen_convolution_transpose", "miopen_depthwise_convolution"),
    *("miopen_convolution_relu", "miopen_convolution_add_relu"),
    *("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu", "_weight_int4pack_mm_with_scales_and_zeros"),
    *("_weight_int8pack_mm", "_dyn_quant_matmul_4bit", "_mixed_dtypes_linear", "_cslt_sparse_mm"),
    *("_sparse_semi_structured_mm", "_sparse_semi_structured_addmm", "_sparse_semi_structured_linear"),
}
"""Operations that multiply and have no rule. A count lists them by name wherever they run."""


def multiplies(operation: str) -> bool:
    """Return whether an operation multiplies matrices."""
    return operation in RULES or operation in UNCOUNTED
