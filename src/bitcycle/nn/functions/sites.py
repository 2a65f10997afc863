"""What computes the products of functional calls: sites that are created at the first call."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.checkpoint import CheckpointFunction, checkpoint

from bitcycle._support.compiling import constant_while_tracing
from bitcycle.arithmetic import Site
from bitcycle.arithmetic.skip import SkipKind
from bitcycle.nn.attention import AttentionLayer
from bitcycle.nn.discovery import Discovery, note_float_call
from bitcycle.nn.layer import Conversion


class DiscoveredSites(AttentionLayer):
    """Computes products at sites that are created when they are first called."""

    def site(self, local: str) -> Site:
        """Return the site of a product, created at its first call."""
        _ensure_site(self.bitcycle, local)
        return self.bitcycle.site(local)

    def run_with_output_options(
        self, local: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a function unchanged that was called with ``out`` or ``out_dtype``, and note that it is no site."""
        if self.bitcycle.discovery is not None:
            note_float_call(self.bitcycle.discovery, SkipKind.OUTPUT_OPTIONS, _function_of(local))
        return func(*args, **kwargs)

    def is_float(self, *sites: Site) -> bool:
        """Return whether the sites compute in full precision, so that the float function can run unchanged."""
        return all(site.skip is not None or site.in_full_precision(self.training) for site in sites)


@constant_while_tracing
def _ensure_site(conversion: Conversion, local: str) -> bool:
    """Create a site if there is none of this name. A compiler runs this once, while it traces."""
    if local not in conversion.sites:
        with _disable_current_modes(), torch._C.DisableTorchFunction():  # an export must not trace what creates it
            conversion.discover(local)
        if conversion.discovery is not None:
            _note_float_gradients(conversion.discovery, local)
    return True


def _note_float_gradients(discovery: Discovery, local: str) -> None:
    """Store if the gradients of a product that runs now will be computed without its site.

    What a checkpoint recomputes during the backward pass runs without the mode that computes products at sites, unless
    a module is called in it. An autograd function has a backward of its own.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not _CALL:
        if frame.f_code is _CHECKPOINT:
            note_float_call(discovery, SkipKind.CHECKPOINT, _function_of(local))
        elif frame.f_code is _APPLY and has_own_backward(frame.f_locals["cls"]):
            note_float_call(discovery, SkipKind.AUTOGRAD_FUNCTION, frame.f_locals["cls"].__name__)
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


def _function_of(local: str) -> str:
    return local.partition("#")[0].removeprefix(":")


_CALL = nn.Module._call_impl.__code__
_CHECKPOINT = inspect.unwrap(checkpoint).__code__
_APPLY = torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined]
