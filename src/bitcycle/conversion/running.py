"""Extra runs of a model, on copies of its inputs, after which its state is restored."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bitcycle.arithmetic.precision import Role, role_of
from bitcycle.conversion.snapshot import Snapshot
from bitcycle.nn.interception import hide_products

_RANDOM_STATE = threading.RLock()
"""Held by the thread that will restore the random states, which all threads share."""


@contextmanager
def preserve_state(model: nn.Module) -> Iterator[None]:
    """Restore the model, except for its parameters, and the random states at the end of the block.

    All threads share the random states. Blocks in several threads therefore run one after the other, so that none of
    them restores a state that another one is about to leave. A thread that draws random numbers outside such a block at
    the same time still shares the states with it.
    """
    with _RANDOM_STATE:
        snapshot = Snapshot(model, parameters=False)
        try:
            yield
        finally:
            snapshot.restore()


@dataclass(frozen=True)
class CallArguments:
    """Positional and keyword arguments of a call."""

    positional: tuple[Any, ...]
    keywords: dict[str, Any]

    @classmethod
    def of(cls, inputs: Any) -> CallArguments:
        """Return the arguments that a tensor, a tuple of arguments or a mapping of keywords stands for."""
        if isinstance(inputs, CallArguments):
            return inputs
        if isinstance(inputs, Mapping):
            return cls((), dict(inputs))
        return cls(tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), {})


def run_model(model: nn.Module, inputs: Any) -> Any:
    """Run a model on a tensor, a tuple of arguments, a mapping of keywords, or :class:`CallArguments`."""
    call = CallArguments.of(inputs)
    return model(*call.positional, **call.keywords)


def run_on_copies(model: nn.Module, inputs: Any) -> Any:
    """Run a model on copies of its inputs, so that it does not change them.

    A module that is running, and whose code has called the model, does not see the products of this run.
    """
    with hide_products():
        return run_model(model, copy_inputs(model, inputs))


def copy_inputs(model: nn.Module, inputs: Any) -> Any:
    """Return copies of the inputs of a model; themselves if they cannot be copied."""
    own = {id(part): part for part in (*model.modules(), *model.parameters())}
    try:
        with _CloneTensors():
            return copy.deepcopy(inputs, own)
    except Exception:  # the code of any class may run here
        return inputs


class _CloneTensors(TorchFunctionMode):
    """Makes a deep copy clone tensors, also those with a gradient function, which torch does not copy deeply."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not Tensor.__deepcopy__:
            return func(*args, **(kwargs or {}))
        with torch.enable_grad():
            return args[0] if role_of(args[0]) is Role.WEIGHT else args[0].clone()
