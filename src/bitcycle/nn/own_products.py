"""Products that a module's own ``forward`` computes: each call of a product function becomes a site.

While such a module runs, a :class:`torch.overrides.TorchFunctionMode` sees the torch functions that its ``forward``
calls. A function that multiplies is computed at a site of the module. Sites are named by the function and the order of
calls, ``attn:sdpa.scores``, ``attn:matmul``, ``attn:matmul#2``, and are created at the first call. The code of child
modules that are layers, converted or kept in full precision, is hidden from the mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.nn.code_scan import scan_for_names, scan_for_products
from bitcycle.nn.discovered_sites import DiscoveredSites
from bitcycle.nn.functions.table import PRODUCTS
from bitcycle.nn.layer import QuantizedLayer

FUSED = {"multi_head_attention_forward"}
"""Functions with products inside that a mode does not see."""

COLUMN_MAJOR = {
    *(torch.linalg.solve, torch.linalg.solve_triangular, torch.linalg.inv, torch.linalg.cholesky),
    *(torch.inverse, torch.Tensor.inverse, torch.cholesky_solve, torch.Tensor.cholesky_solve),
}
"""Functions whose results lie in memory like a transposed view, although nothing was transposed."""


class OwnProducts(DiscoveredSites):
    """Base of modules whose own ``forward`` multiplies."""

    def run_own_forward(self, forward: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Run the float ``forward`` with each of its products computed at a site."""
        compiling = torch.compiler.is_compiling()
        sites = () if compiling else self.bitcycle.sites.values()
        if not compiling:
            self.bitcycle.has_run = True
        if sites and all(site.in_full_precision(self.training) for site in sites):
            return forward(*arguments, **keywords)
        with _Interceptor(self):
            return forward(*arguments, **keywords)


class QuantizedForward(OwnProducts):
    """Any module whose code multiplies and that no other mixin quantises."""

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return []

    @classmethod
    def skips(cls, module: nn.Module, recipe: Recipe) -> tuple[Skip, ...]:
        fused = tuple(name for name in scan_for_products(type(module)) if name in FUSED)
        skips = (Skip(SkipKind.PRODUCTS_OUTSIDE_SITES, fused),) if fused else ()
        # What is recomputed during the backward pass runs without the mode that computes products at sites.
        checkpoints = scan_for_names(type(module), {"checkpoint"}) - {"@"}
        return (*skips, Skip(SkipKind.CHECKPOINT)) if checkpoints else skips

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return self.run_own_forward(super(QuantizedLayer, self).forward, *arguments, **keywords)  # type: ignore[misc]


class KeptLayer(QuantizedLayer):
    """A layer in full precision inside the ``forward`` of another module, from which it hides its products."""

    prefix = "Kept"

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return []

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return super(QuantizedLayer, self).forward(*arguments, **keywords)  # type: ignore[misc]


class _Interceptor(TorchFunctionMode):
    """Computes the products among the torch functions that run inside it at sites of a module."""

    def __init__(self, module: OwnProducts) -> None:
        super().__init__()
        self.module = module
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
        local = f":{name}" if count == 1 else f":{name}#{count}"
        with torch._C.DisableTorchFunction():  # enclosing interceptors must not see what a product is made of
            return compute(self.module, local, func, *args, **kwargs)


def _has_no_grid(x: Tensor) -> bool:
    """Return whether a tensor is never quantised."""
    return x.layout is not torch.strided or x.is_complex()
