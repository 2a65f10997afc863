"""Products that a module's own code computes: each call of a product function becomes a site.

While such a module runs, a :class:`torch.overrides.TorchFunctionMode` sees the torch functions that its ``forward``
calls. A function that multiplies is computed at a site of the module. Sites are named by the function and the order of
calls, ``attn:sdpa.scores``, ``attn:matmul``, ``attn:matmul#2``, and are created at the first call. The code of child
modules that are layers, converted or kept in full precision, is hidden from the mode. Other methods that multiply, such
as ``model.encode(x)``, are run in the same way if they are called from outside: ``model:encode.matmul``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.nn.code_scan import gradient_products, methods_that_multiply, scan_for_names
from bitcycle.nn.discovered_sites import DiscoveredSites
from bitcycle.nn.functions.table import PRODUCTS
from bitcycle.nn.interception import HiddenFromInterceptors, Interceptor
from bitcycle.nn.layer import ConvertedModule, QuantizedLayer

FUSED = {"multi_head_attention_forward", "flex_attention", "while_loop"}
"""Functions with products inside that a mode does not see."""

COLUMN_MAJOR = {
    *(torch.linalg.solve, torch.linalg.solve_triangular, torch.linalg.inv, torch.linalg.cholesky),
    *(torch.inverse, torch.Tensor.inverse, torch.cholesky_solve, torch.Tensor.cholesky_solve),
}
"""Functions whose results lie in memory like a transposed view, although nothing was transposed."""


class OwnProducts(QuantizedLayer):
    """Base of mixins for modules whose own code multiplies."""

    @classmethod
    def wrapped_methods(cls, original: type[nn.Module]) -> dict[str, Callable[..., Any]]:
        return {name: _at_sites(getattr(original, name)) for name in methods_that_multiply(original)}


class OwnForward(ConvertedModule):
    """A module whose ``forward`` computes its products at sites."""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return run_at_sites(self, super().forward, arguments, keywords)  # type: ignore[misc]


class QuantizedForward(OwnProducts):
    """Any module whose code multiplies and that no other mixin quantises."""

    front = OwnForward

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return []

    @classmethod
    def skips(cls, module: nn.Module, recipe: Recipe) -> tuple[Skip, ...]:
        skips = []
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
            skips.append(Skip(SkipKind.EMBEDDING))
        fused = tuple(sorted(scan_for_names(type(module), FUSED) - {"@"}))
        if fused:
            skips.append(Skip(SkipKind.PRODUCTS_OUTSIDE_SITES, fused))
        # What is recomputed during the backward pass runs without the mode that computes products at sites.
        if scan_for_names(type(module), {"checkpoint"}) - {"@"}:
            skips.append(Skip(SkipKind.CHECKPOINT))
        functions = gradient_products(type(module))
        if functions:
            skips.append(Skip(SkipKind.AUTOGRAD_FUNCTION, functions))
        return tuple(skips)


def run_at_sites(
    module: ConvertedModule,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    method: str = "",
) -> Any:
    """Run float code of a module with each of its products computed at a site.

    The names of sites start with that of the method, if it is not ``forward``.
    """
    if not torch.compiler.is_compiling():
        module.bitcycle.has_run = True
        # An enclosing module must not see the products, not even in full precision.
        if (
            module.bitcycle.sites
            and not torch._C._len_torch_function_stack()
            and all(site.in_full_precision(module.training) for site in module.bitcycle.all_sites())
        ):
            return function(*arguments, **keywords)
    with _Interceptor(module, method):
        return function(*arguments, **keywords)


def _at_sites(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that computes its products at sites of its own, unless its module is running already."""

    @wraps(method)
    def run(self: ConvertedModule, *arguments: Any, **keywords: Any) -> Any:
        modes = _get_current_function_mode_stack()
        if any(isinstance(mode, _Interceptor) and mode.module is self for mode in modes):
            return method(self, *arguments, **keywords)
        return run_at_sites(self, method, (self, *arguments), keywords, method.__name__)

    return run


class HiddenForward(ConvertedModule):
    """A module whose ``forward`` hides its products from the code that calls it."""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        with HiddenFromInterceptors():
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
        return {name: _hidden(getattr(original, name)) for name in methods_that_multiply(original)}


def _hidden(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that hides its products from the code that calls it."""

    @wraps(method)
    def run(self: ConvertedModule, *arguments: Any, **keywords: Any) -> Any:
        with HiddenFromInterceptors():
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
        self.module = module
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
        if any(isinstance(x, Tensor) and _has_no_grid(x) for x in (*args, *kwargs.values())):
            self.module.bitcycle.products_without_grids.add(name)
            return func(*args, **kwargs)
        local = f"{self.prefix}{name}" if count == 1 else f"{self.prefix}{name}#{count}"
        with torch._C.DisableTorchFunction():  # enclosing interceptors must not see what a product is made of
            return compute(self.products, local, func, *args, **kwargs)


def _has_no_grid(x: Tensor) -> bool:
    """Return whether a tensor is never quantised."""
    return x.layout is not torch.strided or x.is_complex()
