"""Snapshots of everything that a training step can change, restored exactly and into the same objects."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from bitcycle.arithmetic.control import KEY
from bitcycle.arithmetic.site import Site
from bitcycle.conversion.sites import conversions, named_sites


class Snapshot:
    """The state of a model, of optimisers, of other objects with a ``state_dict``, and of all random numbers.

    Args:
        model: The model.
        others: Optimisers, random generators, and objects with ``state_dict`` and ``load_state_dict``.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> before, weight = layer.weight.detach().clone(), layer.weight
        >>> snapshot = Snapshot(layer)
        >>> _ = nn.init.zeros_(layer.weight)
        >>> snapshot.restore()
        >>> layer.weight is weight, bool((layer.weight == before).all())
        (True, True)
    """

    def __init__(self, model: nn.Module, others: Iterable[Any] = ()) -> None:
        others = list(others)
        self.optimizers = [other for other in others if isinstance(other, Optimizer)]
        self._parts: list[Any] = [_Module(module) for module in model.modules()]
        self._parts += [_Template(c.discovery.template) for _, c in conversions(model) if c.discovery is not None]
        for site in named_sites(model).values():
            self._parts += [_Tensor(site.control), _Baseline(site)]
        self._parts += [_Optimizer(other) if isinstance(other, Optimizer) else _Stateful(other) for other in others]
        self._parts.append(_RandomState())

    def restore(self) -> None:
        """Restore everything."""
        for part in self._parts:
            part.restore()

    @contextmanager
    def no_other_optimizer(self) -> Iterator[None]:
        """Raise a ValueError before an optimiser steps in this thread that is not part of this snapshot."""
        thread = threading.get_ident()

        def refuse(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            if threading.get_ident() == thread and not any(optimizer is known for known in self.optimizers):
                raise ValueError(
                    f"step(batch) uses an optimiser ({type(optimizer).__name__}) that the range test cannot restore: "
                    "pass it as optimizer=..., or in also=[...]"
                )

        handle = register_optimizer_step_pre_hook(refuse)
        try:
            yield
        finally:
            handle.remove()


class _Tensor:
    """A tensor with its content and its gradient."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.content = tensor, tensor.detach().clone()
        self.gradient = None if tensor.grad is None else _Tensor(tensor.grad)

    def restore(self) -> None:
        with torch.no_grad():
            self.tensor.copy_(self.content)
        if self.gradient is not None:
            self.gradient.restore()
        if self.tensor.is_leaf:
            self.tensor.grad = None if self.gradient is None else self.gradient.tensor


class _Baseline:
    """The baseline of the cost of one site."""

    def __init__(self, site: Site) -> None:
        self.site, self.baseline = site, site.baseline

    def restore(self) -> None:
        self.site.baseline = self.baseline


class _Template:
    """The numbers of the site that new sites of a module start with.

    Sites that a step discovers get them too, but with the noise of their own name.
    """

    def __init__(self, template: Site) -> None:
        self.template, self.numbers, self.baseline = template, template.control.clone(), template.baseline

    def restore(self) -> None:
        for site in (self.template, *self.template.followers):
            site.control[:KEY] = self.numbers[:KEY]
            site.rename(site.name)  # with the noise of this name
            site.baseline = self.baseline


class _Module:
    """The training mode, the parameters and the buffers of one module; a step may replace the tensors by others."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.training = module, module.training
        by_name: list[dict[str, Any]] = [module._parameters, module._buffers]
        self.named = [(registry, dict(registry)) for registry in by_name]
        tensors = [tensor for _, named in self.named for tensor in named.values() if tensor is not None]
        if any(is_lazy(tensor) for tensor in tensors):
            raise ValueError(f"{type(module).__name__} has uninitialised parameters: run the model once first")
        self.tensors = [_Tensor(tensor) for tensor in tensors]

    def restore(self) -> None:
        self.module.training = self.training
        for registry, named in self.named:
            registry.clear()
            registry.update(named)
        for tensor in self.tensors:
            tensor.restore()


class _Optimizer:
    """The state and the parameter groups of an optimiser, whose ``load_state_dict`` would replace tensors by copies."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.state = {parameter: _copied(state) for parameter, state in optimizer.state.items()}
        self.groups = [(group, _copied(group)) for group in optimizer.param_groups]

    def restore(self) -> None:
        self.optimizer.state.clear()
        self.optimizer.state.update({parameter: _restored(state) for parameter, state in self.state.items()})
        for group, values in self.groups:
            group.clear()
            group.update(_restored(values))
        self.optimizer.param_groups[:] = [group for group, _ in self.groups]


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
    """The random states of Python, numpy and torch, on every device."""

    def __init__(self) -> None:
        self.python, self.torch = random.getstate(), torch.get_rng_state()
        self.numpy = np.random.get_state()  # noqa: NPY002 - the user's code may draw from it
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        self.mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None

    def restore(self) -> None:
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002
        torch.set_rng_state(self.torch)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)
        if self.mps is not None:
            torch.mps.set_rng_state(self.mps)


def _copied(value: Any) -> Any:
    """Copy a value, with the content of the tensors in it; the snapshots of modules hold the parameters."""
    if isinstance(value, nn.Parameter):
        return value
    if isinstance(value, Tensor):
        return _Tensor(value)
    if isinstance(value, dict):
        return {name: _copied(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(part) for part in value)
    return copy.deepcopy(value)


def _restored(value: Any) -> Any:
    """Return the value again, with the same tensors and their content restored."""
    if isinstance(value, _Tensor):
        value.restore()
        return value.tensor
    if isinstance(value, nn.Parameter):
        return value
    if isinstance(value, dict):
        return {name: _restored(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_restored(part) for part in value)
    return copy.deepcopy(value)
