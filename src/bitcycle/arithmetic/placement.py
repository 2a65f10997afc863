"""Placement: while a model is traced for export, another object puts its operands on their grids.

What a file stores differs from what a training computes: integers with a scale instead of rounded floating-point
numbers. The trace of an exporter therefore asks its :class:`Placement` for every operand of every site.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from bitcycle.arithmetic.operands import OperandSpec
from bitcycle.arithmetic.products import Product

if TYPE_CHECKING:
    from bitcycle.arithmetic.site import Site


class Placement(Protocol):
    """Takes the place of rounding inside :func:`placing`."""

    def multiply(
        self, site: Site, product: Product, a: Tensor, b: Tensor, bias: Tensor | None, specs: tuple[OperandSpec, ...]
    ) -> Tensor:
        """Return the product of operands that it has put on their grids."""

    def round(self, site: Site, operand: str, x: Tensor, spec: OperandSpec) -> Tensor:
        """Return an operand that it has put on its grid."""


_PLACEMENT: ContextVar[Placement | None] = ContextVar("bitcycle_placement", default=None)


@contextmanager
def placing(placement: Placement) -> Iterator[None]:
    """Let a placement put the operands of all sites that are traced inside on their grids."""
    token = _PLACEMENT.set(placement)
    try:
        yield
    finally:
        _PLACEMENT.reset(token)


def current_placement() -> Placement | None:
    """Return the placement of this context; None unless ``torch.export`` is tracing in Python."""
    return _PLACEMENT.get() if torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling() else None
