"""The attributes of a model's modules, saved before an extra run and put back after it."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

_OF_TORCH = vars(nn.Module()).keys()
"""The attributes in which torch keeps parameters, buffers, modules and hooks."""
_CONTAINERS = (list, dict, set, deque, OrderedDict, defaultdict)


class SavedAttributes:
    """The attributes and buffers of all modules of a model, what containers among them hold, and values of tensors.

    Other objects are not copied: what a run changes inside them stays changed.
    """

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        self._model, self._structure = model, _structure(model)
        self._names: list[tuple[dict[str, Any], dict[str, Any]]] = [
            (names, names.copy()) for module in modules for names in (vars(module), module._buffers)
        ]
        self._containers: dict[int, tuple[Any, Any]] = {}
        self._tensors: dict[int, tuple[Tensor, int, Tensor]] = {}
        for module in modules:
            for name, value in vars(module).items():
                if name not in _OF_TORCH:
                    self._save_inside(value)

    def put_back(self) -> None:
        """Make the attributes what they were, unless parameters or modules were created since, as in a lazy module.

        Attributes may say that these exist.
        """
        if _structure(self._model) != self._structure:
            return
        for names, before in self._names:
            names.update(before)
            for name in names.keys() - before.keys():
                del names[name]
        for container, before in self._containers.values():
            container.clear()
            (container.extend if isinstance(container, list | deque) else container.update)(before)
        for tensor, version, value in self._tensors.values():
            if tensor._version != version:  # a write, even of the same values, can invalidate a graph
                with torch.no_grad():
                    tensor.copy_(value)

    def _save_inside(self, value: Any) -> None:
        if id(value) in self._containers or id(value) in self._tensors:
            return
        if type(value) in _CONTAINERS:
            self._containers[id(value)] = value, value.copy()
            for part in value.values() if isinstance(value, dict) else value:
                self._save_inside(part)
        elif isinstance(value, Tensor) and not isinstance(value, nn.Parameter) and not value.is_inference():
            self._tensors[id(value)] = value, value._version, value.detach().clone()


def _structure(model: nn.Module) -> list[object]:
    """Return the classes of all modules, and which parameters and modules each has or is yet to create."""
    return [
        (
            type(module),
            [(name, parameter is None or is_lazy(parameter)) for name, parameter in module._parameters.items()],
            [(name, child is None) for name, child in module._modules.items()],
        )
        for module in model.modules()
    ]
