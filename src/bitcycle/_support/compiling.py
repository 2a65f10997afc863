"""Help for code that ``torch.compile`` traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def constant_while_tracing(function: Function) -> Function:
    """Make a compiler run a function once, while it traces, and take its result as a constant.

    This is ``torch.compiler.assume_constant_result`` without its import of the compiler, which takes seconds.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
