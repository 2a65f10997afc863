"""Tracing of the products that run in a model outside its sites."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _pop_mode_temporarily

from bitcycle.arithmetic import Observer, Site, observing
from bitcycle.nn.op_macs import multiplies

_NOTHING: AbstractContextManager[None] = nullcontext()

ProductCallback = Callable[[str, nn.Module, str, tuple[Any, ...], Any], None]
"""Takes the name of the innermost running module, the module, the operation, its arguments and its result."""


class OperationTracer(TorchDispatchMode):
    """Sees the operations of torch that multiply, also inside of other operations in inference mode."""

    supports_higher_order_operators = True
    splits_operations = True
    """Whether to run the parts of an operation in inference mode, which does not show them by itself."""

    def saw(self, operation: str, args: tuple[Any, ...], out: Any) -> None:
        """Receive an operation that multiplies, by name, with its arguments and its result."""
        raise NotImplementedError

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            operation = func.name()
        else:
            operation = func._schema.name.partition("::")[2].removesuffix("_")  # addmm_ multiplies like addmm
            if self.splits_operations and torch.is_inference_mode_enabled() and not multiplies(operation):
                TorchDispatchMode.__enter__(self)
                try:
                    parts = func.decompose(*args, **kwargs)
                finally:
                    TorchDispatchMode.__exit__(self, None, None, None)
                return func(*args, **kwargs) if parts is NotImplemented else parts
        out = func(*args, **kwargs)
        if multiplies(operation):
            self.saw(operation, args, out)
        return out


class ProductTracer(OperationTracer, Observer):
    """Calls a function for each product that runs outside any site while it is entered."""

    def __init__(self, model: nn.Module, callback: ProductCallback) -> None:
        super().__init__()
        self._names = {id(module): name for name, module in model.named_modules()}
        self._modules = list(model.modules())
        self._running: list[nn.Module] = [model]
        self._sites_deep = 0
        self._contexts = ExitStack()
        self._callback = callback

    def __enter__(self) -> Any:
        for module in self._modules:
            self._contexts.callback(module.register_forward_pre_hook(self._enter_module).remove)
            self._contexts.callback(module.register_forward_hook(self._exit_module, always_call=True).remove)
        self._contexts.enter_context(_without_compiling())
        self._contexts.enter_context(_EagerBranches())
        self.observe(self._contexts)
        return super().__enter__()

    def observe(self, contexts: ExitStack) -> None:
        """Make layers in full precision compute on their sites too."""
        contexts.enter_context(observing(self))

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._contexts.close()

    def around(self, site: Site) -> AbstractContextManager[None]:
        return self.at_site()

    @contextmanager
    def at_site(self, context: AbstractContextManager[Any] = _NOTHING) -> Iterator[None]:
        """Ignore the products that run inside, and also enter another context."""
        self._sites_deep += 1
        # A site runs dozens of operations. It is many times faster if they do not pass through Python.
        pause = _pop_mode_temporarily() if _get_current_dispatch_mode() is self else nullcontext()
        try:
            with pause, context:
                yield
        finally:
            self._sites_deep -= 1

    def _enter_module(self, module: nn.Module, arguments: Any) -> None:
        self._running.append(module)

    def _exit_module(self, module: nn.Module, arguments: Any, result: Any) -> None:
        self._running.pop()

    def saw(self, operation: str, args: tuple[Any, ...], out: Any) -> None:
        if not self._sites_deep:
            module = self._running[-1]
            self._callback(self._names.get(id(module), "?"), module, operation, args, out)


class ProductsOutside(dict[nn.Module, list[str]]):
    """A callback of :class:`ProductTracer` that collects the operations outside any site, by module."""

    def __call__(self, name: str, module: nn.Module, operation: str, *_: Any) -> None:
        operations = self.setdefault(module, [])
        operations += [operation] if operation not in operations else []


class FirstRunSearch(ProductTracer):
    """A tracer for a run of the user's: layers compute as they do without it."""

    splits_operations = False

    def observe(self, contexts: ExitStack) -> None:
        contexts.callback(FIRST_RUN.reset, FIRST_RUN.set(self))


FIRST_RUN: ContextVar[FirstRunSearch | None] = ContextVar("bitcycle_first_run", default=None)
"""The search for products outside of sites that is under way in this context."""


def current_search() -> FirstRunSearch | None:
    """Return the search for products outside of sites that is under way in this context; none in a compiled graph."""
    return None if torch.compiler.is_compiling() else FIRST_RUN.get()


class _EagerBranches(TorchFunctionMode):
    """Runs a branch of ``torch.cond`` as Python code, since torch can differentiate it only where it may compile it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.higher_order.cond:
            return func(*args, **(kwargs or {}))
        condition, if_true, if_false, operands = args
        with self:
            return (if_true if condition else if_false)(*operands)


class _WithoutCompiling:
    """A context in which functions that are compiled run in Python, where their products are seen.

    Under a tracer torch does not compile, and a function with ``fullgraph=True`` raises an error because of that. There
    is one in ``flex_attention``. Torch has one stance for all threads: the first that enters sets it, and the last that
    leaves puts it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = 0
        self._stance: Any = None

    def __enter__(self) -> None:
        may_compile = sys.modules.keys() & {"torch._dynamo", "torch.nn.attention.flex_attention"}  # slow to import
        with self._lock:
            self._entered += 1
            if self._stance is None and may_compile:
                self._stance = torch.compiler.set_stance("force_eager")

    def __exit__(self, *error: Any) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0 and self._stance is not None:
                self._stance.__exit__(None, None, None)
                self._stance = None


_WITHOUT_COMPILING = _WithoutCompiling()


def _without_compiling() -> AbstractContextManager[Any]:
    # A compiler that traces this function itself, where a model is compiled in parts, must not be asked to stop.
    return nullcontext() if torch.compiler.is_compiling() else _WITHOUT_COMPILING
