"""ReLU that saves one bit per element for the backward pass, where torch saves its result.

The result and the gradient are those of torch, bit for bit. A quantised product saves codes of its operands, so that
nobody else needs the result of a ReLU before it: its memory is free as soon as the product is computed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitcycle.kernels import native

GROUP = 512
"""Elements whose bits are stored together, in an eighth as many bytes."""


def relu(x: Tensor, inplace: bool = False) -> Tensor:
    """Return ``torch.relu(x)``.

    Only the native kernels know the bits: what they do not take is computed by torch, and so is what needs no gradient.
    """
    if torch.compiler.is_compiling() or not (x.requires_grad and torch.is_grad_enabled()):
        return x.relu_() if inplace else x.relu()
    if not native.supports(x) or _layout(x) is None or x.numel() == 0:
        return x.relu_() if inplace else x.relu()
    out = _ReLU.apply(x, inplace)
    assert isinstance(out, Tensor)
    return out


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, inplace: bool) -> Tensor:
        if inplace:
            ctx.mark_dirty(x)
        out = x if inplace else torch.empty_like(x)
        bits = out.new_empty(-(-out.numel() // GROUP) * GROUP // 8, dtype=torch.uint8)
        native.relu(x, bits, out)
        ctx.save_for_backward(bits)
        ctx.layout = _layout(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (bits,) = ctx.saved_tensors
        return _Masked.apply(_in_memory(grad_output, ctx.layout), bits), None


class _Masked(torch.autograd.Function):
    """A tensor with some elements set to 0, which is linear: its gradient is masked in the same way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: Tensor) -> Tensor:
        ctx.save_for_backward(bits)
        ctx.layout = _layout(x)
        out = torch.empty_like(x)
        native.relu(x, bits, out, keep=True)
        return out

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (bits,) = ctx.saved_tensors
        return _Masked.apply(_in_memory(grad_output, ctx.layout), bits), None


def _layout(x: Tensor) -> torch.memory_format | None:
    """Return the memory layout of a dense tensor, if it is one that torch can name."""
    if x.is_contiguous():
        return torch.contiguous_format
    return torch.channels_last if x.is_contiguous(memory_format=torch.channels_last) else None


def _in_memory(x: Tensor, layout: torch.memory_format) -> Tensor:
    """Return a tensor whose memory holds its elements as they are, in a layout."""
    return x.resolve_neg().contiguous(memory_format=layout)
