"""A scan of a class's code for products, for modules that the registry does not know."""

from __future__ import annotations

import dis
import inspect
from types import CodeType, FunctionType

from torch import nn

PRODUCTS = {
    *("matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "vecdot", "inner"),
    *("addmm_", "baddbmm_", "addbmm_", "addmv_"),
    *("einsum", "tensordot", "chain_matmul", "multi_dot", "linear", "bilinear", "spmm"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"),
    *("scaled_dot_product_attention", "multi_head_attention_forward"),
}
"""Names of functions and methods that multiply and add up. An outer product (outer, kron) only multiplies."""

_DEPTH = 3  # how many calls deep to follow methods and helpers of the same package


def scan_for_products(
    layer: type[nn.Module], methods: tuple[str, ...] = ("forward",), skip: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the products in the code of a class's methods and of what they call, including ``@``.

    The methods in ``skip`` are not scanned.

    >>> class Scores(nn.Module):
    ...     def forward(self, q, k):
    ...         return q @ k.mT
    >>> scan_for_products(Scores)
    ('@',)
    """
    done: set[object] = {getattr(layer, method, None) for method in skip}
    products: set[str] = set()
    for method in methods:
        products |= _in_function(getattr(layer, method, None), layer, _DEPTH, done, PRODUCTS)
    return tuple(sorted(products))


def sums_of_products(layer: type[nn.Module], methods: tuple[str, ...]) -> tuple[str, ...]:
    """Return which of a class's methods multiply elementwise and sum, which is a product that no function shows.

    >>> class Message(nn.Module):
    ...     def message(self, query, key):
    ...         return (query * key).sum(-1)
    >>> sums_of_products(Message, ("message",))
    ('message',)
    """
    return tuple(method for method in methods if _multiplies_and_sums(getattr(layer, method, None)))


def _multiplies_and_sums(function: object) -> bool:
    function = inspect.unwrap(function) if callable(function) else function
    if not isinstance(function, FunctionType):
        return False
    instructions = list(dis.get_instructions(function))
    return any(i.opname == "BINARY_OP" and i.argrepr == "*" for i in instructions) and any(
        i.opname in ("LOAD_METHOD", "LOAD_ATTR") and i.argval == "sum" for i in instructions
    )


def scan_for_names(layer: type[nn.Module], names: set[str]) -> set[str]:
    """Return which of these functions and methods the code of a class's ``forward`` uses, and what it calls; ``@`` too.

    >>> class Weights(nn.Module):
    ...     def forward(self, scores):
    ...         return scores.softmax(-1)
    >>> scan_for_names(Weights, {"softmax", "tril"})
    {'softmax'}
    """
    return _in_function(layer.forward, layer, _DEPTH, set(), names)


def _in_function(function: object, layer: type, depth: int, done: set[object], wanted: set[str]) -> set[str]:
    function = inspect.unwrap(function) if callable(function) else function
    if not isinstance(function, FunctionType) or function in done:
        return set()
    done.add(function)
    self_names, other_names, has_operator = _names(function.__code__)
    products = other_names & wanted | ({"@"} if has_operator else set())
    if depth:
        package = (function.__module__ or "").partition(".")[0]
        called = [getattr(layer, name, None) for name in self_names]
        for name in other_names:
            helper = function.__globals__.get(name)
            if isinstance(helper, FunctionType) and (helper.__module__ or "").partition(".")[0] == package != "torch":
                called.append(helper)
        for next_function in called:
            products |= _in_function(next_function, layer, depth - 1, done, wanted)
    return products


def _names(code: CodeType, self_name: str | None = None) -> tuple[set[str], set[str], bool]:
    """Return the attributes of ``self``, all other names and attributes, and whether ``@`` is used.

    ``self_name`` is the name of ``self`` in an enclosing method.
    """
    self_name = self_name or (code.co_varnames[0] if code.co_argcount else "self")
    self_names: set[str] = set()
    other_names: set[str] = set()
    has_operator = False
    top = None  # the variable on top of the stack
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_METHOD", "LOAD_ATTR", "LOAD_NAME"):
            (self_names if top == self_name else other_names).add(str(instruction.argval))
        has_operator |= instruction.opname == "BINARY_OP" and instruction.argrepr in ("@", "@=")
        top = None
        if instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
            top = instruction.argval[-1] if isinstance(instruction.argval, tuple) else instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner_self, inner_others, inner_operator = _names(constant, self_name)
            self_names, other_names = self_names | inner_self, other_names | inner_others
            has_operator |= inner_operator
    return self_names, other_names, has_operator
