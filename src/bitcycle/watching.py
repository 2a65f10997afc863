"""Watch the products that run in a model outside of its sites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from bitcycle.nn.layer import conversion_of
from bitcycle.operations import multiplies

Seen = Callable[[str, nn.Module, str, tuple[Any, ...], Any], None]
"""Called with the name of the innermost module that runs, the module, the operation, its arguments and its result."""


class Watch(TorchDispatchMode):
    """Calls a function for each product that runs in a module without sites, while it is entered."""

    def __init__(self, model: nn.Module, seen: Seen) -> None:
        super().__init__()
        self._names = {id(module): name for name, module in model.named_modules()}
        self._modules = list(model.modules())
        self._running: list[nn.Module] = [model]
        self._handles: list[Any] = []
        self._seen = seen

    def __enter__(self) -> Any:
        for module in self._modules:
            self._handles.append(module.register_forward_pre_hook(self._begin))
            self._handles.append(module.register_forward_hook(self._end, always_call=True))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for handle in self._handles:
            handle.remove()

    def _begin(self, module: nn.Module, arguments: Any) -> None:
        self._running.append(module)

    def _end(self, module: nn.Module, arguments: Any, result: Any) -> None:
        self._running.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        operation = func._schema.name.partition("::")[2]
        module = self._running[-1]
        if multiplies(operation):
            conversion = conversion_of(module)
            if conversion is None or not conversion.sites:
                self._seen(self._names.get(id(module), "?"), module, operation, args, out)
        return out


def call(model: nn.Module, inputs: Any) -> Any:
    """Run a model on a tensor, a tuple of arguments or a dictionary of keywords."""
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)
