"""A scan of a class's code for products, for modules that the registry does not know."""

from __future__ import annotations

import dis
import inspect
import operator
import sys
from collections.abc import Container, Iterable, Iterator
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
    *("linear_cross_entropy", "conv_tbc", "grouped_mm", "_grouped_mm", "__matmul__", "__rmatmul__"),
    *("matrix_power", "cov", "corrcoef"),
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
    owner = layer if module is None else module  # an empty container is false
    roots = [getattr(layer, method, None) for method in methods]
    return tuple(sorted(_scan(roots, owner, PRODUCTS, [getattr(layer, method, None) for method in skip]).names))


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
    return tuple(sorted(_scan([function], None, PRODUCTS).names))


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
    functions = _scan([layer.forward], layer, PRODUCTS).autograd_functions
    return tuple(sorted(found.__name__ for found in functions if products_of_function(found.backward)))


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
    return _scan([layer.forward], layer, names).names


@dataclass
class _Found:
    """What a scan has found."""

    names: set[str] = field(default_factory=set)
    """The wanted names, and ``@``."""
    autograd_functions: set[type[torch.autograd.Function]] = field(default_factory=set)


def _scan(roots: Iterable[object], owner: object, wanted: set[str], skip: Iterable[object] = ()) -> _Found:
    """Scan the code of functions, and of what they call in methods and user code, for names.

    ``owner`` is what ``self`` stands for in the roots; functions in ``skip`` are not scanned. The scan goes breadth
    first, so that each function is reached by the fewest calls, and the result does not depend on an order of names.
    """
    torch_functions = _torch_functions(wanted)
    skipped = [_unwrap(called, owner)[0] for called in skip]
    found = _Found()
    done: set[tuple[object, int]] = set()
    level = [(root, owner) for root in roots]
    for _ in range(_DEPTH + 1):
        calls, level = level, []
        for called, caller in calls:
            target, owner = _unwrap(called, caller)
            if id(target) in torch_functions:
                found.names.add(torch_functions[id(target)])
                continue
            if isinstance(target, type) and issubclass(target, torch.autograd.Function):
                found.autograd_functions.add(target)
            function, owner = _function_of(target, owner)
            if function is None or function in skipped or (function, id(owner)) in done:
                continue
            done.add((function, id(owner)))
            names = _names(function.__code__)
            found.names |= names.others & wanted | ({"@"} if names.has_operator else set())
            level += ((_attribute(owner, name), owner) for name in names.of_self)
            level += ((_inherited(function, owner, name), owner) for name in names.of_super)
            level += ((helper, owner) for helper in _helpers(function, names.others, torch_functions))
    return found


def _torch_functions(names: Iterable[str]) -> dict[int, str]:
    """Return the names of torch's functions by their identities, by which they are known under any other name."""
    owners = (torch, torch.Tensor, torch.linalg, torch.sparse, torch.nn.functional, operator)
    found = ((getattr(owner, name, None), name) for owner in owners for name in names)
    return {id(function): name for function, name in found if function is not None}


def _unwrap(called: object, owner: object) -> tuple[object, object]:
    """Return what a bound, partial or decorated function calls, and what its ``self`` stands for."""
    while True:
        if isinstance(called, MethodType):
            owner, called = called.__self__, called.__func__
        elif isinstance(called, partial):
            called = called.func
        elif callable(called) and hasattr(called, "__wrapped__"):
            called = inspect.unwrap(called)
        else:
            return called, owner


def _attribute(owner: object, name: str) -> object:
    """Return an attribute of a class, or of an object and its class, without running code of properties."""
    own = {} if isinstance(owner, type) else getattr(owner, "__dict__", {})
    return own.get(name) if name in own else getattr(owner if isinstance(owner, type) else type(owner), name, None)


def _inherited(function: FunctionType, owner: object, name: str) -> object:
    """Return what ``super().name`` is in a method."""
    kind = owner if isinstance(owner, type) else type(owner)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if "__class__" in cells:
        defining = _value(cells["__class__"])
    else:  # super(Class, self)
        methods = ((base, vars(base).get(function.__name__)) for base in kind.__mro__)
        defining = next((base for base, method in methods if _unwrap(method, owner)[0] is function), None)
    return getattr(super(defining, kind), name, None) if defining in kind.__mro__ else None


def _function_of(called: object, owner: object) -> tuple[FunctionType | None, object]:
    """Return the Python function that runs if something is called, and what its ``self`` stands for.

    There is none if a module is called, which is scanned by itself.
    """
    match called:
        case nn.Module():
            return None, owner
        case FunctionType():
            return called, owner
        case type():
            return (
                _function_of(called.forward, called) if issubclass(called, torch.autograd.Function) else (None, owner)
            )
    method = _attribute(type(called), "__call__")
    return (method, called) if isinstance(method, FunctionType) else (None, owner)


def _helpers(function: FunctionType, names: set[str], torch_functions: Container[int]) -> Iterator[object]:
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
        is_followed = package == own or package not in _NOT_FOLLOWED or id(value) in torch_functions
        if id(value) in seen or not is_followed:
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


@dataclass
class _Names:
    """The names in the code of a function."""

    of_self: set[str] = field(default_factory=set)
    """Attributes of ``self``."""
    of_super: set[str] = field(default_factory=set)
    """Attributes of ``super()``."""
    others: set[str] = field(default_factory=set)
    """All other names and attributes."""
    has_operator: bool = False
    """Whether ``@`` is used."""


def _names(code: CodeType, self_name: str | None = None) -> _Names:
    """Return the names in code. ``self_name`` is the name of ``self`` in an enclosing method."""
    self_name = self_name or (code.co_varnames[0] if code.co_argcount else "self")
    names = _Names()
    calls_super = False
    top = ""  # the variable on top of the stack, or "super()"
    for instruction in dis.get_instructions(code):
        opname, value = instruction.opname, instruction.argval
        before, top = top, ""
        if opname in ("LOAD_GLOBAL", "LOAD_METHOD", "LOAD_ATTR", "LOAD_NAME"):
            kind = {self_name: names.of_self, "super()": names.of_super}.get(before, names.others)
            kind.add(str(value))
            calls_super |= opname == "LOAD_GLOBAL" and value == "super"
        elif opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
            top = value[-1] if isinstance(value, tuple) else value
        elif opname == "CALL":
            calls_super, top = False, "super()" if calls_super else ""
        elif opname == "LOAD_SUPER_ATTR":  # super().name from Python 3.12 on
            calls_super = False
            names.of_super.add(str(value))
        elif opname == "BINARY_OP":
            names.has_operator |= instruction.argrepr in ("@", "@=")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _names(constant, self_name)
            names.of_self |= inner.of_self
            names.of_super |= inner.of_super
            names.others |= inner.others
            names.has_operator |= inner.has_operator
    return names
