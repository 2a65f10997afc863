"""A call of a torch function in the code of a module, and the sites that the first such call creates."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.checkpoint import CheckpointFunction, checkpoint

from bitcycle._support.compiling import constant_while_tracing
from bitcycle.arithmetic import Site
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import SkipKind
from bitcycle.nn.attention import AttentionLayer
from bitcycle.nn.convolution import ConvolutionLayer
from bitcycle.nn.layer import Conversion, ConvertedModule
from bitcycle.nn.site_names import join_names

Function = Callable[..., Any]


class ProductFunction(NamedTuple):
    """A torch function that multiplies."""

    name: str
    """The name of its site."""
    compute: Callable[..., Any]
    """Takes a :class:`DiscoveredSites` and the arguments of the function, and computes at the sites.

    It returns ``NotImplemented`` for arguments with which it does not, such as several tensors in place of one.
    """
    sites: tuple[str, ...] = ("",)
    """The parts of the name, if the function has several sites."""
    counted_as: Function | None = None
    """The same function of operations that can be counted, if its own cannot."""


class DiscoveredSites(AttentionLayer, ConvolutionLayer):
    """A call of a torch function, which computes its products at sites of a module.

    Args:
        module: The module whose code calls the function.
        local: The local name of the site, or what the names of its sites begin with.
        product: The entry of the function.
        func: The function.
    """

    def __init__(self, module: ConvertedModule, local: str, product: ProductFunction, func: Function) -> None:
        self.bitcycle, self.training = module.bitcycle, module.training
        self.local, self.product, self.func = local, product, func

    @property
    def recipe(self) -> Recipe:
        """The recipe of the module."""
        return self.bitcycle.recipe

    def site(self, part: str = "") -> Site:
        """Return the site of the call, or one of its sites. It is created at the first call."""
        local = join_names(self.local, part)
        _ensure_site(self.bitcycle, local)
        return self.bitcycle.site(local)

    @property
    def is_float(self) -> bool:
        """Whether all sites of the call are in full precision, so that the float function can run unchanged."""
        sites = [self.site(part) for part in self.product.sites]
        return all(site.skip is not None or site.in_full_precision(self.training) for site in sites)


@constant_while_tracing
def note_float_call(conversion: Conversion, kind: SkipKind, function: str) -> bool:
    """Store that a function was called in full precision. A compiler runs this once, while it traces."""
    conversion.float_calls.setdefault(kind, set()).add(function)
    return True


@constant_while_tracing
def _ensure_site(conversion: Conversion, local: str) -> bool:
    """Create a site if there is none of this name. A compiler runs this once, while it traces."""
    if local not in conversion.sites:
        with _disable_current_modes(), torch._C.DisableTorchFunction():  # an export must not trace what creates it
            conversion.discover(local)
        _note_float_gradients(conversion, local.partition("#")[0].removeprefix(":"))
    return True


def _note_float_gradients(conversion: Conversion, name: str) -> None:
    """Store if the gradients of a product that runs now will be computed without its site.

    What a checkpoint recomputes during the backward pass runs without the mode that computes products at sites, unless
    a module is called in it. An autograd function has a backward of its own.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not _CALL:
        if frame.f_code is _CHECKPOINT:
            note_float_call(conversion, SkipKind.CHECKPOINT, name)
        elif frame.f_code is _APPLY and has_own_backward(frame.f_locals["cls"]):
            note_float_call(conversion, SkipKind.AUTOGRAD_FUNCTION, frame.f_locals["cls"].__name__)
        frame = frame.f_back


def running_autograd_function() -> Any:
    """Return the autograd function whose ``forward`` is running, if there is one."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not _APPLY:
        frame = frame.f_back
    return None if frame is None else frame.f_locals["cls"]


def has_own_backward(function: type[torch.autograd.Function]) -> bool:
    """Return whether an autograd function computes gradients itself. Reentrant checkpointing runs ``forward`` again."""
    return function is not CheckpointFunction and function.backward is not torch.autograd.Function.backward


_CALL = nn.Module._call_impl.__code__
_CHECKPOINT = inspect.unwrap(checkpoint).__code__
_APPLY = torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined]
