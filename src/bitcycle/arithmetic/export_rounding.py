"""Rounding for an export: while a model is traced, another object computes what its sites compute.

What a file stores differs from what a training computes: integers with a scale instead of rounded floating-point
numbers. The trace of an exporter therefore asks its :class:`ExportRounding` for every operand of every site.
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


class ExportRounding(Protocol):
    """Takes the place of rounding inside :func:`exporting_with`."""

    def multiply(
        self, site: Site, product: Product, a: Tensor, b: Tensor, bias: Tensor | None, specs: tuple[OperandSpec, ...]
    ) -> Tensor:
        """Return the product of operands on the grids of the file."""

    def round(self, site: Site, operand: str, x: Tensor, spec: OperandSpec) -> Tensor:
        """Return an operand on the grid of the file."""


_ROUNDING: ContextVar[ExportRounding | None] = ContextVar("bitcycle_export_rounding", default=None)


@contextmanager
def exporting_with(rounding: ExportRounding) -> Iterator[None]:
    """Round the operands of all sites that are traced inside as an exported file does."""
    token = _ROUNDING.set(rounding)
    try:
        yield
    finally:
        _ROUNDING.reset(token)


def current_export_rounding() -> ExportRounding | None:
    """Return the rounding of an export; None unless ``torch.export`` is tracing in Python."""
    return _ROUNDING.get() if torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling() else None
