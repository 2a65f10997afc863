"""Tracing of the products that run in a model outside its sites."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _pop_mode_temporarily

from bitcycle.arithmetic import Observer, Site, observing
from bitcycle.arithmetic.op_macs import multiplies
from bitcycle.arithmetic.precision import Role, role_of
from bitcycle.conversion.saved_attributes import SavedAttributes

ProductCallback = Callable[[str, nn.Module, str, tuple[Any, ...], Any], None]
"""Takes the name of the innermost running module, the module, the operation, its arguments and its result."""


class ProductTracer(TorchDispatchMode, Observer):
    """Calls a function for each product that runs outside any site while it is entered."""

    supports_higher_order_operators = True

    def __init__(self, model: nn.Module, callback: ProductCallback) -> None:
        super().__init__()
        self._names = {id(module): name for name, module in model.named_modules()}
        self._modules = list(model.modules())
        self._running: list[nn.Module] = [model]
        self._sites_deep = 0
        self._handles: list[Any] = []
        self._contexts = ExitStack()
        self._callback = callback

    def __enter__(self) -> Any:
        for module in self._modules:
            self._handles.append(module.register_forward_pre_hook(self._enter_module))
            self._handles.append(module.register_forward_hook(self._exit_module, always_call=True))
        self._contexts.enter_context(observing(self))
        self._contexts.enter_context(_without_compiling())
        self._contexts.enter_context(_EagerBranches())
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._contexts.close()
        for handle in self._handles:
            handle.remove()

    @contextmanager
    def around(self, site: Site) -> Iterator[None]:
        self._sites_deep += 1
        # A site runs dozens of operations. It is many times faster if they do not pass through Python.
        pause = _pop_mode_temporarily() if _get_current_dispatch_mode() is self else nullcontext()
        try:
            with pause:
                yield
        finally:
            self._sites_deep -= 1

    def _enter_module(self, module: nn.Module, arguments: Any) -> None:
        self._running.append(module)

    def _exit_module(self, module: nn.Module, arguments: Any, result: Any) -> None:
        self._running.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            operation = func.name()
        else:
            operation = func._schema.name.partition("::")[2].removesuffix("_")  # addmm_ multiplies like addmm
            if torch.is_inference_mode_enabled() and not multiplies(operation):
                return self._in_parts(func, args, kwargs)
        out = func(*args, **kwargs)
        if multiplies(operation) and not self._sites_deep:
            module = self._running[-1]
            self._callback(self._names.get(id(module), "?"), module, operation, args, out)
        return out

    def _in_parts(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation and see the operations inside it, which inference mode does not show."""
        super().__enter__()
        try:
            out = func.decompose(*args, **kwargs)
        finally:
            super().__exit__(None, None, None)
        return func(*args, **kwargs) if out is NotImplemented else out


class _EagerBranches(TorchFunctionMode):
    """Runs a branch of ``torch.cond`` as Python code, since torch can differentiate it only where it may compile it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.higher_order.cond:
            return func(*args, **(kwargs or {}))
        condition, if_true, if_false, operands = args
        with self:
            return (if_true if condition else if_false)(*operands)


def _without_compiling() -> AbstractContextManager[Any]:
    """Return a context in which functions that are compiled run in Python, where their products are seen.

    Under a tracer torch does not compile, and a function with ``fullgraph=True`` raises an error because of that. There
    is one in ``flex_attention``.
    """
    may_compile = sys.modules.keys() & {"torch._dynamo", "torch.nn.attention.flex_attention"}  # slow to import
    return torch.compiler.set_stance("force_eager") if may_compile else nullcontext()


_RANDOM_STATE = threading.RLock()
"""Held by the thread that will put torch's random state back, which all threads share."""


@contextmanager
def preserve_state(model: nn.Module) -> Iterator[None]:
    """Put the buffers of a model, the attributes of its modules and the random state back at the end of the block.

    torch has one random state for all threads. Blocks in several threads therefore run one after the other, so that
    none of them puts back a state that another one is about to leave. A thread that draws random numbers outside such a
    block at the same time still shares the state with it.
    """
    attributes = SavedAttributes(model)
    buffers = [
        (buffer, buffer.detach().clone()) for buffer in model.buffers() if not (buffer.is_meta or is_lazy(buffer))
    ]
    accelerators = sorted({parameter.get_device() for parameter in model.parameters() if parameter.is_cuda})
    with _RANDOM_STATE, torch.random.fork_rng(devices=accelerators):
        try:
            yield
        finally:
            attributes.put_back()
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)


@dataclass(frozen=True)
class CallArguments:
    """Positional and keyword arguments of a call."""

    positional: tuple[Any, ...]
    keywords: dict[str, Any]


def run_model(model: nn.Module, inputs: Any) -> Any:
    """Run a model on a tensor, a tuple of arguments, a mapping of keywords, or :class:`CallArguments`."""
    if isinstance(inputs, CallArguments):
        return model(*inputs.positional, **inputs.keywords)
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)


def run_on_copies(model: nn.Module, inputs: Any) -> Any:
    """Run a model on copies of its inputs, so that it does not change them; on themselves if they cannot be copied."""
    own = {id(part): part for part in (*model.modules(), *model.parameters())}
    try:
        with _CloneTensors():
            inputs = copy.deepcopy(inputs, own)
    except Exception:  # the code of any class may run here
        pass
    return run_model(model, inputs)


class _CloneTensors(TorchFunctionMode):
    """Makes a deep copy clone tensors, also those with a gradient function, which torch does not copy deeply."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not Tensor.__deepcopy__:
            return func(*args, **(kwargs or {}))
        with torch.enable_grad():
            return args[0] if role_of(args[0]) is Role.WEIGHT else args[0].clone()
