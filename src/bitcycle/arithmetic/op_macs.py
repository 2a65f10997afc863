"""Multiply-accumulates of torch's own operations, for products that run outside any site.

Each rule takes the arguments of an operation, as the dispatcher passes them, and its result. It returns the products
inside the operation with their operands and multiply-accumulates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from bitcycle.arithmetic.products import TrilinearProduct


class OpProduct(NamedTuple):
    """One product of an operation."""

    a: Tensor
    b: Tensor
    macs: int


MacRule = Callable[[tuple[Any, ...], Any], list[OpProduct]]


def _matrix(first: int) -> MacRule:
    """Return the rule for (..., n, k) x (..., k, m), with the operands at positions ``first`` and ``first + 1``."""

    def rule(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
        a, b = args[first], args[first + 1]
        return [OpProduct(a, b, out.numel() * a.shape[-1])]

    return rule


def _summed_over_batch(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
    a, b = args[1], args[2]
    return [OpProduct(a, b, a.numel() * b.shape[-1])]


def _vector(first: int) -> MacRule:
    def rule(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
        a, b = args[first], args[first + 1]
        return [OpProduct(a, b, a.numel())]

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
    x, weight = args[0], args[1]
    return [OpProduct(x, weight, TrilinearProduct().macs(x.shape, weight.shape[-3:], out.shape))]


def _sparse(first: int) -> MacRule:
    def rule(args: tuple[Any, ...], out: Any) -> list[OpProduct]:
        a, b = args[first], args[first + 1]
        return [OpProduct(b, a, a._nnz() * b.shape[-1])]

    return rule


RULES: dict[str, MacRule] = {
    **dict.fromkeys(("mm", "bmm", "matmul"), _matrix(0)),
    **dict.fromkeys(("addmm", "baddbmm"), _matrix(1)),
    "addbmm": _summed_over_batch,
    **dict.fromkeys(("mv", "dot", "vdot"), _vector(0)),
    "addmv": _vector(1),
    "linear": _linear,
    "convolution": _convolution,
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_fused_attention_overrideable",
        ),
        _attention,
    ),
    "_grouped_mm": _grouped,
    "_trilinear": _trilinear,
    "_sparse_mm": _sparse(0),
    "_sparse_addmm": _sparse(1),
}
"""Rules for the operations that can be counted, by name."""

UNCOUNTED = {
    *("_convolution", "mkldnn_rnn_layer", "lstm", "gru", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell"),
    *("_transformer_encoder_layer_fwd", "_native_multi_head_attention", "_cdist_forward"),
}
"""Operations that multiply and have no rule. A count lists them by name wherever they run."""


def multiplies(operation: str) -> bool:
    """Return whether an operation multiplies matrices."""
    return operation in RULES or operation in UNCOUNTED
