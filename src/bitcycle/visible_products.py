"""Does a module's own code multiply? A look at the code of its class, for modules that no registry knows."""

from __future__ import annotations

import dis
import inspect
from functools import lru_cache
from types import CodeType, FunctionType

from torch import nn

PRODUCTS = {
    "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "inner", "outer", "ger", "chain_matmul",
    "einsum", "tensordot", "bilinear", "linear", "multi_dot", "spmm", "scaled_dot_product_attention", "multi_head_attention_forward",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
}  # fmt: skip
"""Functions and methods that multiply matrices."""

_DEPTH = 2  # helper functions of the module's own package are looked into, and their helpers


@lru_cache(maxsize=None)
def visible_products(layer: type[nn.Module]) -> tuple[str, ...]:
    """The products that show in the methods of a module's class, ``@`` included.

    >>> class Scores(nn.Module):
    ...     def forward(self, q, k):
    ...         return q @ k.mT
    >>> visible_products(Scores)
    ('@',)
    """
    found: set[str] = set()
    for base in layer.__mro__:
        if base is nn.Module:
            break
        for member in vars(base).values():
            function = inspect.unwrap(member) if callable(member) else member
            if isinstance(function, FunctionType):
                found |= _in_function(function, _DEPTH)
    return tuple(sorted(found))


def _in_function(function: FunctionType, depth: int) -> set[str]:
    found = _in_code(function.__code__)
    if depth:
        package = (function.__module__ or "").partition(".")[0]
        for name in _names(function.__code__):
            helper = function.__globals__.get(name)
            if isinstance(helper, FunctionType) and (helper.__module__ or "").partition(".")[0] == package != "torch":
                found |= _in_function(helper, depth - 1)
    return found


def _in_code(code: CodeType) -> set[str]:
    found = {name for name in _names(code) if name in PRODUCTS}
    for instruction in dis.get_instructions(code):
        if instruction.opname == "BINARY_OP" and instruction.argrepr in ("@", "@="):
            found.add("@")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _in_code(constant)
    return found


def _names(code: CodeType) -> set[str]:
    """Global names and attributes that are called or read, but not those only ``self`` is asked for."""
    names = set()
    previous = None
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_METHOD", "LOAD_ATTR", "LOAD_NAME"):
            of_self = previous is not None and previous.opname == "LOAD_FAST" and previous.argval == "self"
            if not of_self:
                names.add(str(instruction.argval))
        previous = instruction
    return names
