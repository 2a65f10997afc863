"""Functional calls in user code: each call of a torch function that multiplies becomes a site.

Conversion cannot know what a module's code computes; a run can. While a module of user code runs, a
:class:`torch.overrides.TorchFunctionMode` sees the torch functions that its ``forward`` calls. A function that
multiplies is computed at a site of the module. Sites are named by the function and the order of calls,
``attn:sdpa.scores``, ``attn:matmul``, ``attn:matmul#2``, and are created at the first call. The code of child modules
is hidden from the mode. Other public methods, such as ``model.encode(x)``, are run in the same way if they are called
from outside: ``model:encode.matmul``.

The first run of a model is also searched for products that no site computes, below torch's functions for example. One
warning names them.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.overrides import _get_current_function_mode_stack

from bitcycle.arithmetic.observers import current_observers
from bitcycle.arithmetic.precision import Role, role_of
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip, SkipKind, explain, record_skips, recorded_skips
from bitcycle.nn.discovery import Discovery, note_float_call
from bitcycle.nn.functions.sites import DiscoveredSites
from bitcycle.nn.functions.table import PRODUCTS
from bitcycle.nn.interception import HiddenFromInterceptors, Interceptor, hide_products
from bitcycle.nn.layer import ConvertedModule, QuantizedLayer, conversion_of, original_class
from bitcycle.nn.registry import LAYERS
from bitcycle.nn.tracing import FirstRunSearch, current_search

_NOTHING: AbstractContextManager[None] = nullcontext()

FRAMEWORKS = {"torch", "torch_geometric", "transformers", "lightning", "pytorch_lightning", "bitcycle"}
"""Packages whose classes call the methods of user code themselves."""

COLUMN_MAJOR = {
    *(torch.linalg.solve, torch.linalg.solve_triangular, torch.linalg.inv, torch.linalg.cholesky),
    *(torch.inverse, torch.Tensor.inverse, torch.cholesky_solve, torch.Tensor.cholesky_solve),
}
"""Functions whose results lie in memory like a transposed view, although nothing was transposed."""


class InterceptedForward(ConvertedModule):
    """A module whose ``forward`` computes its products at sites."""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return run_at_sites(self, super().forward, arguments, keywords)  # type: ignore[misc]

    def _get_name(self) -> str:
        name: str = super()._get_name()  # type: ignore[misc]
        return f"Quantized{name}" if self.bitcycle.sites else name


class FunctionalOps(QuantizedLayer):
    """Any module of user code, which no other mixin quantises. It keeps the name of its class."""

    prefix = ""
    is_intercepted = True
    front = InterceptedForward

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return []

    @classmethod
    def skips(cls, module: nn.Module, recipe: Recipe) -> tuple[Skip, ...]:
        return (Skip(SkipKind.EMBEDDING),) if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) else ()


class SearchedForward(ConvertedModule):
    """A container of torch that is the whole model: only its first run is searched for products."""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        if torch.compiler.is_compiling():
            return super().forward(*arguments, **keywords)  # type: ignore[misc]
        with _searched(self):
            return super().forward(*arguments, **keywords)  # type: ignore[misc]


class SearchedContainer(QuantizedLayer):
    """A model that is a container of torch, whose ``forward`` multiplies nothing. It keeps the name of its class."""

    prefix = ""
    front = SearchedForward

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return []


def run_at_sites(
    module: ConvertedModule,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    method: str = "",
) -> Any:
    """Run float code of a module with each of its products computed at a site.

    The names of sites start with that of the method, if it is not ``forward``. Enclosing modules do not see the
    products, not even in full precision: they number their own in the order of calls.
    """
    conversion = module.bitcycle
    if torch.compiler.is_compiling():
        with HiddenFromInterceptors(), _Interceptor(module, method):
            return function(*arguments, **keywords)
    with _searched(module), HiddenFromInterceptors():
        is_full = bool(conversion.sites) and current_search() is None
        if is_full and all(site.in_full_precision(module.training) for site in conversion.all_sites()):
            return function(*arguments, **keywords)
        with _Interceptor(module, method):
            return function(*arguments, **keywords)


def intercepted_methods(original: type[nn.Module]) -> dict[str, Callable[..., Any]]:
    """Return the public methods of user code besides ``forward``, with their products computed at sites."""
    return {name: _at_sites(getattr(original, name)) for name in public_methods(original)}


def public_methods(kind: type[nn.Module]) -> tuple[str, ...]:
    """Return the public methods besides ``forward`` that user code adds to a registered layer or to a plain module.

    Methods that a framework calls, such as ``training_step`` of Lightning, are not among them.
    """
    frameworks = [base for base in kind.__mro__ if base in LAYERS or base.__module__.partition(".")[0] in FRAMEWORKS]
    names = {name for base in kind.__mro__[: kind.__mro__.index(frameworks[0])] for name in vars(base)}
    names -= {"forward", *(name for base in frameworks for name in vars(base))}
    return tuple(
        name
        for name in sorted(names)
        if not name.startswith("_") and isinstance(inspect.getattr_static(kind, name), FunctionType)
    )


def _at_sites(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that computes its products at sites of its own, unless its module is running already."""

    @wraps(method)
    def run(self: ConvertedModule, *arguments: Any, **keywords: Any) -> Any:
        modes = _get_current_function_mode_stack()
        if any(isinstance(mode, _Interceptor) and mode.module is self for mode in modes):
            return method(self, *arguments, **keywords)
        return run_at_sites(self, method, (self, *arguments), keywords, method.__name__)

    return run


def _searched(module: ConvertedModule) -> AbstractContextManager[None]:
    """Return a context that searches the first run of a module, unless it is part of the run of an enclosing module.

    Runs for a count or a summary are not searched.
    """
    conversion = module.bitcycle
    if conversion.has_run:
        return _NOTHING
    if current_search() is not None:
        conversion.has_run = True
        return _NOTHING
    if current_observers() or torch._C._get_tracing_state() is not None:
        return _NOTHING
    model: Any = module
    return search_run(model)


@contextmanager
def search_run(model: nn.Module) -> Iterator[None]:
    """Search a run of a converted model for products that no site computes, record them, and name them in a warning."""
    outside: dict[nn.Module, list[str]] = {}
    lazy = [module for module in model.modules() if isinstance(module, LazyModuleMixin)]  # they run as float once

    def ran_outside(name: str, module: nn.Module, operation: str, *_: Any) -> None:
        if module not in lazy and all(skip.kind.denies_products for skip in recorded_skips(module) or ()):
            operations = outside.setdefault(module, [])
            operations += [operation] if operation not in operations else []

    with FirstRunSearch(model, ran_outside):
        yield
    conversion = conversion_of(model)
    if conversion is not None:
        conversion.has_run = True
    for module, operations in outside.items():
        record_skips(module, (Skip(SkipKind.RAN_OUTSIDE_SITES, tuple(operations)),))
    unknown = name_unknown_products(model, found_by_run=True)
    if unknown:
        warnings.warn(f"these products stay in full precision: {unknown}", stacklevel=2)


def name_unknown_products(model: nn.Module, found_by_run: bool) -> str:
    """Name the products that stay in full precision because bitcycle does not know them: those of a run, or others."""
    unknown = []
    for name, module in model.named_modules():
        conversion = conversion_of(module)
        calls = () if conversion is None or conversion.discovery is None else conversion.discovery.skips()
        skips = [
            skip
            for skip in (*(recorded_skips(module) or ()), *calls)
            if skip.kind.is_unknown and skip.kind.is_found_by_run == found_by_run
        ]
        if skips:
            unknown.append(f"{name or 'the model itself'} ({original_class(module).__name__}: {explain(skips)})")
    return "; ".join(unknown)


class HiddenForward(ConvertedModule):
    """A module whose ``forward`` hides its products from the code that calls it."""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        with hide_products():
            return super().forward(*arguments, **keywords)  # type: ignore[misc]


class KeptLayer(QuantizedLayer):
    """A layer in full precision inside the ``forward`` of another module, from which it hides its products."""

    prefix = "Kept"
    front = HiddenForward

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return []

    @classmethod
    def wrapped_methods(cls, original: type[nn.Module]) -> dict[str, Callable[..., Any]]:
        return {name: _hidden(getattr(original, name)) for name in public_methods(original)}


def _hidden(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that hides its products from the code that calls it."""

    @wraps(method)
    def run(self: ConvertedModule, *arguments: Any, **keywords: Any) -> Any:
        with hide_products():
            return method(self, *arguments, **keywords)

    return run


class _Products(DiscoveredSites):
    """Computes products at the sites of a module, which has none of the methods for that itself."""

    def __init__(self, module: ConvertedModule) -> None:
        self.bitcycle = module.bitcycle
        self.training = module.training


class _Interceptor(Interceptor):
    """Computes the products among the torch functions that run inside it at sites of a module."""

    def __init__(self, module: ConvertedModule, method: str) -> None:
        super().__init__()
        assert module.bitcycle.discovery is not None
        self.module = module
        self.discovery: Discovery = module.bitcycle.discovery
        self.products = _Products(module)
        self.prefix = f":{method}." if method else ":"
        self.calls: dict[str, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        product = PRODUCTS.get(func)
        if product is None:
            # The method is Python code with a super() that a compiler cannot trace; the function is the same.
            func = torch.unflatten if func is torch.Tensor.unflatten else func
            out = func(*args, **kwargs)
            return out.contiguous() if func in COLUMN_MAJOR else out
        name, compute = product
        count = self.calls.get(name, 0) + 1
        self.calls[name] = count
        local = f"{self.prefix}{name}" if count == 1 else f"{self.prefix}{name}#{count}"
        if any(isinstance(x, Tensor) and _has_no_grid(x) for x in (*args, *kwargs.values())):
            note_float_call(self.discovery, SkipKind.NO_GRID, name)
            compute, local = _run_unchanged, ""
        elif not torch.compiler.is_compiling() and not self.discovery.multiplies_weights:
            self.discovery.multiplies_weights = any(map(_has_weight, (*args, *kwargs.values())))
        search = current_search()
        if search is not None:
            with search.at_site(torch._C.DisableTorchFunction()):
                return compute(self.products, local, func, *args, **kwargs)
        with torch._C.DisableTorchFunction():  # other interceptors must not see what a product is made of
            return compute(self.products, local, func, *args, **kwargs)


def _run_unchanged(products: DiscoveredSites, local: str, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return func(*args, **kwargs)


def _has_weight(argument: Any) -> bool:
    """Return whether an argument of a function is, or contains, a parameter or a view of one."""
    parts = argument if isinstance(argument, (list, tuple)) else (argument,)
    return any(isinstance(x, Tensor) and role_of(x) is Role.WEIGHT for x in parts)


def _has_no_grid(x: Tensor) -> bool:
    """Return whether a tensor is never quantised."""
    return x.layout is not torch.strided or x.is_complex()
