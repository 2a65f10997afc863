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

_DEPTH = 3  # how far to follow the methods and the package's own helpers that are called


def visible_products(
    layer: type[nn.Module], methods: tuple[str, ...] = ("forward",), skip: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The products that show in methods of a module's class and in what they call, ``@`` included.

    Methods to ``skip`` are not looked into.

    >>> class Scores(nn.Module):
    ...     def forward(self, q, k):
    ...         return q @ k.mT
    >>> visible_products(Scores)
    ('@',)
    """
    done: set[object] = {getattr(layer, method, None) for method in skip}
    found: set[str] = set()
    for method in methods:
        found |= _in_function(getattr(layer, method, None), layer, _DEPTH, done)
    return tuple(sorted(found))


def _in_function(function: object, layer: type, depth: int, done: set[object]) -> set[str]:
    function = inspect.unwrap(function) if callable(function) else function
    if not isinstance(function, FunctionType) or function in done:
        return set()
    done.add(function)
    of_self, of_others, has_operator = _names(function.__code__)
    found = of_others & PRODUCTS | ({"@"} if has_operator else set())
    if depth:
        package = (function.__module__ or "").partition(".")[0]
        called = [getattr(layer, name, None) for name in of_self]
        for name in of_others:
            helper = function.__globals__.get(name)
            if isinstance(helper, FunctionType) and (helper.__module__ or "").partition(".")[0] == package != "torch":
                called.append(helper)
        for next_function in called:
            found |= _in_function(next_function, layer, depth - 1, done)
    return found


def _names(code: CodeType, myself: str | None = None) -> tuple[set[str], set[str], bool]:
    """The attributes asked of ``self``, all other names and attributes, and whether ``@`` is used.

    ``myself`` is what the method calls ``self``; functions inside of it see the same name.
    """
    myself = myself or (code.co_varnames[0] if code.co_argcount else "self")
    of_self: set[str] = set()
    of_others: set[str] = set()
    has_operator = False
    top = None  # the variable that was put on the stack last
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_METHOD", "LOAD_ATTR", "LOAD_NAME"):
            (of_self if top == myself else of_others).add(str(instruction.argval))
        has_operator |= instruction.opname == "BINARY_OP" and instruction.argrepr in ("@", "@=")
        top = None
        if instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
            top = instruction.argval[-1] if isinstance(instruction.argval, tuple) else instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner_self, inner_others, inner_operator = _names(constant, myself)
            of_self, of_others = of_self | inner_self, of_others | inner_others
            has_operator |= inner_operator
    return of_self, of_others, has_operator
