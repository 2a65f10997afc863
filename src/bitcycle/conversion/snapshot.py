"""Snapshots of everything that running or training a model can change, restored exactly and into the same objects."""

from __future__ import annotations

import copy
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial
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

Restore = Callable[[], object]


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
        self._parts: list[Restore] = [_Attributes(model).restore]
        self._parts += [_save_tensor(tensor) for tensor in tensors if not (tensor.is_meta or is_lazy(tensor))]
        self._parts += [_save_site(site) for _, conversion in conversions(model) for site in conversion.all_sites()]
        self._parts += [_save_optimizer(x) if isinstance(x, Optimizer) else _save_object(x) for x in others]
        self._parts += _save_random_states()

    def restore(self) -> None:
        """Restore everything."""
        for restore in self._parts:
            restore()


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
    """Return the classes of all modules, and which parameters and modules each has already created."""
    created = lambda named: [name for name, x in named.items() if x is not None and not is_lazy(x)]  # noqa: E731
    return [(type(module), created(module._parameters), created(module._modules)) for module in model.modules()]


def _save_tensor(tensor: Tensor) -> Restore:
    """Save the content and the gradient of a tensor."""
    content = tensor.detach().clone()
    gradient = tensor.grad if tensor.is_leaf else None
    restore_gradient = None if gradient is None else _save_tensor(gradient)

    def restore() -> None:
        with torch.no_grad():
            tensor.copy_(content)
        if restore_gradient is not None:
            restore_gradient()
        if tensor.is_leaf:
            tensor.grad = gradient

    return restore


def _save_site(site: Site) -> Restore:
    """Save the numbers of a site. Sites that are discovered later start with those of their template."""
    numbers, baseline, followers = site.control.clone(), site.baseline, len(site.followers)

    def restore() -> None:
        site.control.copy_(numbers)
        site.baseline = baseline
        for discovered in site.followers[followers:]:
            discovered.control[:KEY] = numbers[:KEY]
            discovered.rename(discovered.name)  # with the noise of this name
            discovered.baseline = baseline

    return restore


def _save_optimizer(optimizer: Optimizer) -> Restore:
    """Save the state and the groups of an optimiser, whose ``load_state_dict`` would replace tensors by copies."""
    groups = list(optimizer.param_groups)
    leaves, structure = tree_flatten((dict(optimizer.state), groups))
    own = (leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, nn.Parameter))
    tensors = [_save_tensor(tensor) for tensor in own]

    def restore() -> None:
        for restore_tensor in tensors:
            restore_tensor()
        state, values = tree_unflatten(leaves, structure)
        optimizer.state.clear()
        optimizer.state.update(state)
        for group, before in zip(groups, values, strict=True):
            group.clear()
            group.update(before)
        optimizer.param_groups[:] = groups

    return restore


def _save_object(other: Any) -> Restore:
    """Save a random generator, or an object with ``state_dict`` and ``load_state_dict``."""
    if isinstance(other, torch.Generator):
        return partial(other.set_state, other.get_state())
    if not (hasattr(other, "state_dict") and hasattr(other, "load_state_dict")):
        raise ValueError(
            "also must contain objects with state_dict and load_state_dict, such as a learning-rate scheduler, "
            f"got {type(other).__name__}"
        )
    state = copy.deepcopy(other.state_dict())
    return lambda: other.load_state_dict(copy.deepcopy(state))


def _save_random_states() -> list[Restore]:
    """Save the random states of Python, numpy and torch, on every device that is in use."""
    parts: list[Restore] = [
        partial(random.setstate, random.getstate()),
        partial(np.random.set_state, np.random.get_state()),  # noqa: NPY002 - the user's code may draw from it
        partial(torch.set_rng_state, torch.get_rng_state()),
    ]
    if torch.cuda.is_initialized():
        parts.append(partial(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
    if torch.backends.mps.is_available():
        parts.append(partial(torch.mps.set_rng_state, torch.mps.get_rng_state()))
    return parts
