"""Microscaling formats (OCP Microscaling Formats 1.0): blocks of 32 with a power of two as their scale."""

from __future__ import annotations

from torch import Tensor

from bitcycle.grids.family import register_grid
from bitcycle.grids.floating import FormattedGrid
from bitcycle.kernels.float_rounding import Blocks, Scaling
from bitcycle.kernels.rounding import Noise, Width


@register_grid
class MicroscalingGrid(FormattedGrid):
    """``scale = 2^(floor(log2(max|x|)) - emax)`` for each block, ``value = format(x / scale) * scale``.

    ``emax`` is the exponent of the largest number of the format. Values above that number become that number: with
    E2M1, those from 7/8 of the next power of two on lose up to a quarter.

    >>> import torch
    >>> MicroscalingGrid().round(torch.tensor([4.0, 7.0, 0.7, -2.6]), bits=4)
    tensor([ 4.0000,  6.0000,  0.5000, -3.0000])
    """

    name = "mx"
    widths = (4, 6, 8)
    block = 32

    def rounded(self, x: Tensor, bits: Width, shared: Blocks, blocks: Blocks, noise: Noise, error: bool) -> Tensor:
        return self.to_formats(x, bits, self.widths, Scaling.POWERS_OF_TWO, blocks, noise, error)

    def describe(self, bits: int, error: bool = False) -> str:
        return f"{self.format_name(bits, error)}, blocks of {self.block}"
