"""Does a module's own code multiply? A look at the code of its class, for modules that no registry knows."""

from __future__ import annotations

import dis
import inspect
from types import CodeType, FunctionType

from torch import nn

PRODUCTS = {
    *("matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "inner", "outer", "ger"),
    *("einsum", "tensordot", "chain_matmul", "multi_dot", "linear", "bilinear", "spmm"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"),
    *("scaled_dot_product_attention", "multi_head_attention_forward"),
}
"""Functions and methods that multiply matrices."""

_DEPTH = 3  # how far to follow the methods and the package's own helpers that forward calls


def visible_products(layer: type[nn.Module]) -> tuple[str, ...]:
    """The products that show in a module's ``forward`` and in what it calls, ``@`` included.

    >>> class Scores(nn.Module):
    ...     def forward(self, q, k):
    ...         return q @ k.mT
    >>> visible_products(Scores)
    ('@',)
    """
    return tuple(sorted(_in_function(layer.forward, layer, _DEPTH, set())))


def _in_function(function: object, layer: type, depth: int, done: set[object]) -> set[str]:
    function = inspect.unwrap(function) if callable(function) else function
    if not isinstance(function, FunctionType) or function in done:
        return set()
    done.add(function)
    found = _in_code(function.__code__)
    if depth:
        package = (function.__module__ or "").partition(".")[0]
        called = [getattr(layer, name, None) for name in _names(function.__code__, of_self=True)]
        for name in _names(function.__code__, of_self=False):
            helper = function.__globals__.get(name)
            if isinstance(helper, FunctionType) and (helper.__module__ or "").partition(".")[0] == package != "torch":
                called.append(helper)
        for next_function in called:
            found |= _in_function(next_function, layer, depth - 1, done)
    return found


def _in_code(code: CodeType) -> set[str]:
    found = {name for name in _names(code, of_self=False) if name in PRODUCTS}
    for instruction in dis.get_instructions(code):
        if instruction.opname == "BINARY_OP" and instruction.argrepr in ("@", "@="):
            found.add("@")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _in_code(constant)
    return found


def _names(code: CodeType, of_self: bool) -> set[str]:
    """The attributes that ``self`` is asked for, or all other names and attributes."""
    names = set()
    previous = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_METHOD", "LOAD_ATTR", "LOAD_NAME"):
            asks_self = previous is not None and previous.opname == "LOAD_FAST" and previous.argval == "self"
            if asks_self == of_self:
                names.add(str(instruction.argval))
        previous = instruction
    return names
