"""Snapshots of everything that running or training a model can change, restored exactly and into the same objects."""

from __future__ import annotations

import copy
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.utils._pytree import tree_flatten, tree_unflatten

from bitcycle.arithmetic.control import KEY
from bitcycle.arithmetic.site import Site
from bitcycle.conversion.sites import conversions

_OF_TORCH = vars(nn.Module()).keys()
"""The attributes in which torch keeps parameters, buffers, modules and hooks."""
_CONTAINERS = (list, dict, set, deque, OrderedDict, defaultdict)


class Snapshot:
    """The state of a model, of all random numbers, and of other objects such as optimisers.

    Of a model these are its buffers, the attributes of its modules with what containers among them hold, its bits, and
    its parameters with their gradients. Other objects that modules hold are not copied: what changes inside them stays
    changed.

    Args:
        model: The model.
        others: Optimisers, random generators, and objects with ``state_dict`` and ``load_state_dict``.
        parameters: Whether to save parameters and gradients, which a forward pass alone does not change.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> before, weight = layer.weight.detach().clone(), layer.weight
        >>> snapshot = Snapshot(layer)
        >>> _ = nn.init.zeros_(layer.weight)
        >>> snapshot.restore()
        >>> layer.weight is weight, bool((layer.weight == before).all())
        (True, True)
    """

    def __init__(self, model: nn.Module, others: Iterable[Any] = (), parameters: bool = True) -> None:
        tensors = [*model.buffers(), *(model.parameters() if parameters else ())]
        self._parts: list[Any] = [_Attributes(model)]
        self._parts += [_Tensor(tensor) for tensor in tensors if not (tensor.is_meta or is_lazy(tensor))]
        self._parts += [_Site(site) for _, conversion in conversions(model) for site in conversion.all_sites()]
        self._parts += [_Optimizer(other) if isinstance(other, Optimizer) else _Stateful(other) for other in others]
        self._parts.append(_RandomState())

    def restore(self) -> None:
        """Restore everything."""
        for part in self._parts:
            part.restore()


class _Attributes:
    """The attributes, parameters and buffers of all modules by name; the content of containers and of other tensors."""

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        self._model, self._structure = model, _structure(model)
        self._names: list[tuple[dict[str, Any], dict[str, Any]]] = [
            (names, names.copy()) for module in modules for names in (vars(module), module._parameters, module._buffers)
        ]
        self._containers: dict[int, tuple[Any, Any]] = {}
        self._tensors: dict[int, tuple[Tensor, int, Tensor]] = {}
        for module in modules:
            for name, value in vars(module).items():
                if name not in _OF_TORCH:
                    self._save_inside(value)

    def restore(self) -> None:
        """Restore the attributes, unless parameters or modules were created since, as in a lazy module.

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


class _Tensor:
    """A tensor with its content and its gradient."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.content = tensor, tensor.detach().clone()
        self.gradient = _Tensor(tensor.grad) if tensor.is_leaf and tensor.grad is not None else None

    def restore(self) -> None:
        with torch.no_grad():
            self.tensor.copy_(self.content)
        if self.gradient is not None:
            self.gradient.restore()
        if self.tensor.is_leaf:
            self.tensor.grad = None if self.gradient is None else self.gradient.tensor


class _Site:
    """The numbers of a site. Sites that are discovered later start with those of their template."""

    def __init__(self, site: Site) -> None:
        self.site, self.numbers, self.baseline = site, site.control.clone(), site.baseline
        self.followers = len(site.followers)

    def restore(self) -> None:
        self.site.control.copy_(self.numbers)
        self.site.baseline = self.baseline
        for discovered in self.site.followers[self.followers :]:
            discovered.control[:KEY] = self.numbers[:KEY]
            discovered.rename(discovered.name)  # with the noise of this name
            discovered.baseline = self.baseline


class _Optimizer:
    """The state and the parameter groups of an optimiser, whose ``load_state_dict`` would replace tensors by copies."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer, self.groups = optimizer, list(optimizer.param_groups)
        self.leaves, self.structure = tree_flatten((dict(optimizer.state), self.groups))
        own = (leaf for leaf in self.leaves if isinstance(leaf, Tensor) and not isinstance(leaf, nn.Parameter))
        self.tensors = [_Tensor(tensor) for tensor in own]

    def restore(self) -> None:
        for tensor in self.tensors:
            tensor.restore()
        state, groups = tree_unflatten(self.leaves, self.structure)
        self.optimizer.state.clear()
        self.optimizer.state.update(state)
        for group, values in zip(self.groups, groups, strict=True):
            group.clear()
            group.update(values)
        self.optimizer.param_groups[:] = self.groups


class _Stateful:
    """An object with ``state_dict`` and ``load_state_dict``, or a random generator."""

    def __init__(self, other: Any) -> None:
        self.other = other
        if isinstance(other, torch.Generator):
            self.state: Any = other.get_state()
        elif hasattr(other, "state_dict") and hasattr(other, "load_state_dict"):
            self.state = copy.deepcopy(other.state_dict())
        else:
            raise ValueError(
                "also must contain objects with state_dict and load_state_dict, such as a learning-rate scheduler, "
                f"got {type(other).__name__}"
            )

    def restore(self) -> None:
        if isinstance(self.other, torch.Generator):
            self.other.set_state(self.state)
        else:
            self.other.load_state_dict(copy.deepcopy(self.state))


class _RandomState:
    """The random states of Python, numpy and torch, on every device that is in use."""

    def __init__(self) -> None:
        self.python, self.torch = random.getstate(), torch.get_rng_state()
        self.numpy = np.random.get_state()  # noqa: NPY002 - the user's code may draw from it
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        self.mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None

    def restore(self) -> None:
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002
        torch.set_rng_state(self.torch)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)
        if self.mps is not None:
            torch.mps.set_rng_state(self.mps)
