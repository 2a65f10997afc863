"""A scan of a class's code for products, for modules that the registry does not know."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType

import torch
from torch import nn

PRODUCTS = {
    *("matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "vecdot", "inner"),
    *("addmm_", "baddbmm_", "addbmm_", "addmv_"),
    *("einsum", "tensordot", "chain_matmul", "multi_dot", "linear", "bilinear", "spmm"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"),
    *("linear_cross_entropy", "conv_tbc"),
    *("scaled_dot_product_attention", "multi_head_attention_forward", "flex_attention"),
}
"""Names of functions and methods that multiply and add up. An outer product (outer, kron) only multiplies."""

_DEPTH = 3  # how many calls deep to follow methods and helpers
_NOT_FOLLOWED = {"torch", "numpy", "bitcycle", *sys.stdlib_module_names}
"""Packages whose functions are known by their names."""


FRAMEWORKS = {"torch", "torch_geometric", "transformers", "lightning", "pytorch_lightning", "bitcycle"}
"""Packages whose classes call the methods of user code themselves."""


def scan_for_products(
    layer: type[nn.Module],
    methods: tuple[str, ...] = ("forward",),
    skip: tuple[str, ...] = (),
    module: nn.Module | None = None,
) -> tuple[str, ...]:
    """Return the products in the code of a class's methods and of what they call, including ``@``.

    The methods in ``skip`` are not scanned. ``module`` is an instance, whose attributes can be functions, too.

    >>> class Scores(nn.Module):
    ...     def forward(self, q, k):
    ...         return q @ k.mT
    >>> scan_for_products(Scores)
    ('@',)
    """
    scan = _Scan(PRODUCTS, {getattr(layer, method, None) for method in skip})
    owner = layer if module is None else module  # an empty container is false
    return tuple(sorted(set().union(*(scan.of(getattr(layer, method, None), owner) for method in methods))))


def methods_that_multiply(layer: type[nn.Module], base: type[nn.Module] = nn.Module) -> tuple[str, ...]:
    """Return the public methods besides ``forward`` that multiply, in user code that extends a base class.

    Methods that a framework calls, such as ``training_step`` of Lightning, are not among them.
    """
    classes = layer.__mro__[: layer.__mro__.index(base)]
    frameworks = [kind for kind in layer.__mro__ if _package(kind) in FRAMEWORKS]
    taken = {"forward", *(name for kind in frameworks for name in vars(kind))}
    names = {name for kind in classes for name in vars(kind) if not name.startswith("_")} - taken
    methods = sorted(name for name in names if isinstance(inspect.getattr_static(layer, name), FunctionType))
    return tuple(name for name in methods if scan_for_products(layer, (name,), skip=("forward",)))


def products_of_module(layer: type[nn.Module], module: nn.Module | None = None) -> tuple[str, ...]:
    """Return the products in a class's ``forward``, and in the other methods that may be called from outside.

    ``module`` is an instance, whose attributes can be functions, too.
    """
    return scan_for_products(layer, ("forward", *methods_that_multiply(layer)), module=module)


def products_of_function(function: object) -> tuple[str, ...]:
    """Return the products in the code of a function that is no method of a class, such as a hook.

    >>> products_of_function(lambda x: x @ x)
    ('@',)
    """
    return tuple(sorted(_Scan(PRODUCTS).of(function, None)))


def gradient_products(layer: type[nn.Module]) -> tuple[str, ...]:
    """Return the autograd functions in a class's ``forward``, and in what it calls, whose ``backward`` multiplies.

    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         return 2 * ctx.saved_tensors[0] @ gradient
    >>> class Squares(nn.Module):
    ...     square = Square
    ...     def forward(self, x):
    ...         return self.square.apply(x)
    >>> gradient_products(Squares)
    ('Square',)
    """
    scan = _Scan(PRODUCTS)
    scan.of(layer.forward, layer)
    return tuple(sorted(found.__name__ for found in scan.autograd_functions if products_of_function(found.backward)))


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
    return _Scan(names).of(layer.forward, layer)


@dataclass
class _Scan:
    """A search for names in a method, in the methods that it calls, and in functions of user code that it calls."""

    wanted: set[str]
    done: set[object] = field(default_factory=set)
    autograd_functions: set[type[torch.autograd.Function]] = field(default_factory=set)

    def of(self, called: object, owner: object, depth: int = _DEPTH) -> set[str]:
        """Return the wanted names in the code of what is called, and ``@``; ``owner`` is what ``self`` stands for."""
        if isinstance(called, type) and issubclass(called, torch.autograd.Function):
            self.autograd_functions.add(called)
        function, owner = _function_of(called, owner)
        if function is None or function in self.done:
            return set()
        self.done.add(function)
        self_names, other_names, has_operator = _names(function.__code__)
        found = other_names & self.wanted | ({"@"} if has_operator else set())
        if depth:
            helpers = [*(_attribute(owner, name) for name in self_names), *_helpers(function, other_names)]
            found = found.union(*(self.of(helper, owner, depth - 1) for helper in helpers))
        return found


def _attribute(owner: object, name: str) -> object:
    """Return an attribute of a class, or of an object and its class, without running code of properties."""
    own = {} if isinstance(owner, type) else getattr(owner, "__dict__", {})
    return own.get(name) if name in own else getattr(owner if isinstance(owner, type) else type(owner), name, None)


def _function_of(called: object, owner: object) -> tuple[FunctionType | None, object]:
    """Return the Python function that runs if something is called, and what its ``self`` stands for.

    There is none if a module is called, which is scanned by itself.
    """
    called = inspect.unwrap(called) if callable(called) else called
    match called:
        case nn.Module():
            return None, owner
        case FunctionType():
            return called, owner
        case MethodType():
            return _function_of(called.__func__, called.__self__)
        case partial():
            return _function_of(called.func, owner)
        case type():
            return (
                _function_of(called.forward, called) if issubclass(called, torch.autograd.Function) else (None, owner)
            )
    method = _attribute(type(called), "__call__")
    return (method, called) if isinstance(method, FunctionType) else (None, owner)


def _helpers(function: FunctionType, names: set[str]) -> Iterator[object]:
    """Yield what a function may call by these names: variables of its closure, of its module and of other modules."""
    own = (function.__module__ or "").partition(".")[0]
    if own == "torch":
        return
    values = [*map(_value, function.__closure__ or ()), *(function.__globals__.get(name) for name in names)]
    seen: set[int] = set()
    while values:
        value = values.pop()
        is_module = isinstance(value, ModuleType)
        place = getattr(value, "__name__" if is_module else "__module__", None) or type(value).__module__
        package = str(place).partition(".")[0]
        if id(value) in seen or (package != own and package in _NOT_FOLLOWED):
            continue
        seen.add(id(value))
        if is_module:
            values += (vars(value).get(name) for name in names)
        else:
            yield value


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _value(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return None


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
