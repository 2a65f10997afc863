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
from collections.abc import Callable, Collection, Iterator
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
from bitcycle.arithmetic.skip import FOUND_BY_RUN, Skip, SkipKind, explain, record_skips, recorded_skips
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.functions.sites import DiscoveredSites, ProductFunction, note_float_call
from bitcycle.nn.functions.table import PRODUCTS
from bitcycle.nn.interception import HiddenFromInterceptors, Interceptor, hide_products
from bitcycle.nn.layer import ConvertedModule, QuantizedLayer, conversion_of, original_class
from bitcycle.nn.registry import LAYERS, register
from bitcycle.nn.tracing import FirstRunSearch, ProductsOutside, current_search

_NOTHING: AbstractContextManager[None] = nullcontext()

FRAMEWORKS = {"torch", "torch_geometric", "transformers", "lightning", "pytorch_lightning", "bitcycle"}
"""Packages whose classes call the methods of user code themselves."""

COLUMN_MAJOR = {
    *(torch.linalg.solve, torch.linalg.solve_triangular, torch.linalg.inv, torch.linalg.cholesky),
    *(torch.inverse, torch.Tensor.inverse, torch.cholesky_solve, torch.Tensor.cholesky_solve),
}
"""Functions whose results lie in memory like a transposed view, although nothing was transposed."""


class UserModule(ConvertedModule):
    """A module of user code, see :func:`run_at_sites`."""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return run_at_sites(self, super().forward, arguments, keywords)  # type: ignore[misc]

    def _get_name(self) -> str:
        name: str = super()._get_name()  # type: ignore[misc]
        return f"Quantized{name}" if self.bitcycle.sites else name


class FunctionalOps(QuantizedLayer):
    """Any module of user code, which no other mixin quantises. It keeps the name of its class."""

    prefix = ""
    is_intercepted = True
    front = UserModule

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return list(next((product.sites for product in PRODUCTS.values() if product.name == cls.own_product), ()))

    @classmethod
    def skips(cls, module: nn.Module, recipe: Recipe) -> tuple[Skip, ...]:
        return (Skip(SkipKind.EMBEDDING),) if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) else ()

    def weights_on_grid(self) -> Iterator[tuple[str, Tensor, Dims]]:
        yield from ()  # a run shows them


class KeptLayer(FunctionalOps):
    """A layer in full precision inside the ``forward`` of another module, from which it hides its products."""

    prefix = "Kept"


@register(nn.Bilinear)
class QuantizedBilinear(FunctionalOps):
    """``y_o = x1^T W_o x2 + b_o``: one product of three operands, each on its grid."""

    own_product = "bilinear"


@register(nn.LinearCrossEntropyLoss)
class QuantizedLinearCrossEntropyLoss(FunctionalOps):
    """The cross entropy of ``x W^T + b``."""

    owns = ("linear",)
    own_product = "linear_cross_entropy"


def run_at_sites(
    module: ConvertedModule,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    method: str = "",
) -> Any:
    """Run float code of a module with each of its products computed at a site.

    The names of sites start with that of the method, if it is not ``forward``. Enclosing modules do not see the
    products, not even in full precision: they number their own in the order of calls. A module without a template for
    new sites runs unchanged: a kept layer, or a container that is the whole model, whose first run is searched.
    """
    conversion = module.bitcycle
    if conversion.mixin is KeptLayer:
        with hide_products():
            return function(*arguments, **keywords)
    if conversion.template is None:
        with _searched(module):
            return function(*arguments, **keywords)
    with _searched(module), HiddenFromInterceptors():
        may_skip = not torch.compiler.is_compiling() and current_search() is None and bool(conversion.sites)
        if may_skip and all(site.in_full_precision(module.training) for site in conversion.all_sites()):
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
    if torch.compiler.is_compiling() or module.bitcycle.has_run:
        return _NOTHING
    if current_search() is not None:
        module.bitcycle.has_run = True
        return _NOTHING
    if current_observers() or torch._C._get_tracing_state() is not None:
        return _NOTHING
    model: Any = module
    return search_run(model)


@contextmanager
def search_run(model: nn.Module) -> Iterator[None]:
    """Search a run of a converted model for products that no site computes, record them, and name them in a warning."""
    outside = ProductsOutside()
    lazy = [module for module in model.modules() if isinstance(module, LazyModuleMixin)]  # they run as float once
    with FirstRunSearch(model, outside):
        yield
    conversion = conversion_of(model)
    if conversion is not None:
        conversion.has_run = True
    for module, operations in outside.items():
        if module not in lazy and all(skip.kind.denies_products for skip in recorded_skips(module) or ()):
            record_skips(module, (Skip(SkipKind.RAN_OUTSIDE_SITES, tuple(operations)),))
    warn_of_skips(model, FOUND_BY_RUN, "these products stay in full precision")


def warn_of_skips(model: nn.Module, kinds: Collection[SkipKind], message: str) -> None:
    """Warn if products stay in full precision for one of these reasons, and name them."""
    named = []
    for name, module in model.named_modules():
        conversion = conversion_of(module)
        skips = [*(recorded_skips(module) or ()), *(() if conversion is None else conversion.skips())]
        skips = [skip for skip in skips if skip.kind in kinds]
        if skips:
            named.append(f"{name or 'the model itself'} ({original_class(module).__name__}: {explain(skips)})")
    if named:
        warnings.warn(f"{message}: {'; '.join(named)}", stacklevel=3)


class _Interceptor(Interceptor):
    """Computes the products among the torch functions that run inside it at sites of a module."""

    def __init__(self, module: ConvertedModule, method: str) -> None:
        super().__init__()
        self.module, self.method = module, method
        self.calls: dict[str, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        product = PRODUCTS.get(func)
        if product is None:
            # The method is Python code with a super() that a compiler cannot trace; the function is the same.
            func = torch.unflatten if func is torch.Tensor.unflatten else func
            out = func(*args, **kwargs)
            return out.contiguous() if func in COLUMN_MAJOR else out
        search = current_search()
        if search is not None:
            with search.at_site(torch._C.DisableTorchFunction()):
                return self._compute(product, func, args, kwargs)
        with torch._C.DisableTorchFunction():  # other interceptors must not see what a product is made of
            return self._compute(product, func, args, kwargs)

    def _compute(self, product: ProductFunction, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute a product at its sites, or run the function unchanged."""
        conversion, local = self.module.bitcycle, self._next_name(product.name)
        operands = [
            x
            for argument in (*args, *kwargs.values())
            for x in (argument if isinstance(argument, (list, tuple)) else (argument,))
            if isinstance(x, Tensor)
        ]
        if any(x.layout is not torch.strided or x.is_complex() for x in operands):
            note_float_call(conversion, SkipKind.NO_GRID, product.name)
            return func(*args, **kwargs)
        if kwargs.get("out") is not None or kwargs.get("out_dtype") is not None:
            note_float_call(conversion, SkipKind.OUTPUT_OPTIONS, product.name)
            return func(*args, **kwargs)
        if not operands or not operands[0].is_floating_point():
            return func(*args, **kwargs)
        if not torch.compiler.is_compiling() and not conversion.multiplies_weights:
            conversion.multiplies_weights = any(role_of(x) is Role.WEIGHT for x in operands)
        if product.counted_as is not None and current_observers():
            func = product.counted_as
        call = DiscoveredSites(self.module, local, product, func)
        out = NotImplemented if call.is_float else product.compute(call, *args, **kwargs)
        return func(*args, **kwargs) if out is NotImplemented else out

    def _next_name(self, function: str) -> str:
        """Return the local name of the next call of a function."""
        count = self.calls.get(function, 0) + 1
        self.calls[function] = count
        if count == 1 and not self.method and function == self.module.bitcycle.mixin.own_product:
            return ""
        name = f":{self.method}.{function}" if self.method else f":{function}"
        return name if count == 1 else f"{name}#{count}"
