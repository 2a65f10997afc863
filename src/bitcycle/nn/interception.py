"""Modes that see the torch functions in a module's ``forward``, and how layers inside it are hidden from them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from bitcycle.nn.tracing import FIRST_RUN

_NOTHING: AbstractContextManager[None] = nullcontext()


class Interceptor(TorchFunctionMode):
    """Base of modes that compute the products of a module's ``forward`` at its sites."""


class HiddenFromInterceptors:
    """A context without interceptors. All other modes stay, such as that of :func:`torch.set_default_device`."""

    def __enter__(self) -> None:
        self.modes = [_pop_mode() for _ in range(torch._C._len_torch_function_stack())]
        self.others = [mode for mode in self.modes if not isinstance(mode, Interceptor)]
        for mode in reversed(self.others):
            _push_mode(mode)

    def __exit__(self, *error: Any) -> None:
        for _ in self.others:
            _pop_mode()
        for mode in reversed(self.modes):
            _push_mode(mode)


def hide_products() -> AbstractContextManager[Any]:
    """Return a context whose products neither interceptors nor the search of a first run see."""
    search = None if torch.compiler.is_compiling() else FIRST_RUN.get()
    if search is not None:
        return search.at_site(HiddenFromInterceptors())
    return HiddenFromInterceptors() if torch._C._len_torch_function_stack() else _NOTHING
