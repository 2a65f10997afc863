"""Floating-point formats, scaled to the largest number of the format."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from bitcycle.grids.family import LAST, GridFamily, register_grid
from bitcycle.kernels.float_rounding import (
    FORMATS,
    Blocks,
    Scaling,
    chosen_format,
    round_to_bfloat16,
    round_to_format,
)
from bitcycle.kernels.rounding import Dims, Noise, Width, check_floating, is_full_precision


class FormattedGrid(GridFamily):
    """Base of the families of floating-point formats."""

    def format_name(self, bits: int, error: bool = False) -> str:
        """Return the name of the format of a width."""
        if bits == 8 and error:
            return self.grad_format
        return {4: "E2M1", 6: self.fp6_format, 8: "E4M3", 16: "bfloat16"}[bits]

    @abstractmethod
    def rounded(self, x: Tensor, bits: Width, shared: Blocks, blocks: Blocks, noise: Noise, error: bool) -> Tensor:
        """Return what :meth:`round` does at the widths of the family.

        Args:
            x: The tensor.
            bits: One of the widths, as a number or, in a compiled graph, as a tensor.
            shared: The dimensions that share one scale, where scales do not belong to blocks.
            blocks: The blocks that share one scale, where they do.
            noise: For stochastic rounding.
            error: Whether the tensor is an error.
        """

    def round(
        self,
        x: Tensor,
        bits: Width,
        dims: Dims = None,
        noise: Noise = None,
        *,
        along: Blocks = LAST,
        error: bool = False,
    ) -> Tensor:
        check_floating(x)
        if is_full_precision(bits):
            return x
        blocks = along if self.block is None else Blocks(along.dims, self.block, along.groups)
        rounded = self.rounded(x, bits, Blocks(dims), blocks, noise, error)
        return rounded if isinstance(bits, int) else torch.where(bits == 0, x, rounded)

    def to_formats(
        self,
        x: Tensor,
        bits: Width,
        widths: tuple[int, ...],
        scaling: Scaling,
        blocks: Blocks,
        noise: Noise,
        error: bool,
    ) -> Tensor:
        """Round a tensor at one of some widths to the format of that width."""
        formats = {width: FORMATS[self.format_name(width, error)] for width in widths}
        return round_to_format(x, chosen_format(bits, formats), scaling, blocks, noise)


@register_grid
class FloatGrid(FormattedGrid):
    """``scale = max|x| / largest``, ``value = format(x / scale) * scale``; bfloat16 has no scale.

    The formats are E2M1, E2M3 (or E3M2), E4M3 (errors: or E5M2) and bfloat16.

    >>> FloatGrid().round(torch.tensor([-12.0, 0.1, 2.6, 5.1]), bits=4)
    tensor([-12.,   0.,   3.,   6.])
    """

    name = "float"
    widths: ClassVar[tuple[int, ...]] = (4, 6, 8, 16)

    def rounded(self, x: Tensor, bits: Width, shared: Blocks, blocks: Blocks, noise: Noise, error: bool) -> Tensor:
        if isinstance(bits, int) and bits == 16:
            return round_to_bfloat16(x, noise)
        scaled = self.to_formats(x, bits, (4, 6, 8), Scaling.TO_LARGEST, shared, noise, error)
        return scaled if isinstance(bits, int) else torch.where(bits == 16, round_to_bfloat16(x, noise), scaled)

    def describe(self, bits: int, error: bool = False) -> str:
        return self.format_name(bits, error)
