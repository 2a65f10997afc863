"""NVFP4: E2M1 in blocks of 16, with a scale in E4M3 for each block and one for the tensor."""

from __future__ import annotations

import torch
from torch import Tensor

from bitcycle.grids.family import register_grid
from bitcycle.grids.floating import FloatGrid
from bitcycle.kernels.float_rounding import E2M1, Blocks, Scaling, round_to_format
from bitcycle.kernels.rounding import Noise, Width


@register_grid
class NVFP4Grid(FloatGrid):
    """4 bits are NVFP4; 8 and 16 bits are those of the family ``float``.

    ``tensor = max|x| / (448 * 6)``, ``scale = E4M3(max|x of a block| / 6 / tensor) * tensor``,
    ``value = E2M1(x / scale) * scale``. A block whose scale is 0 in E4M3 becomes 0.

    >>> NVFP4Grid().round(torch.tensor([6.0, 2.6, 0.7, -5.1]), bits=4)
    tensor([ 6.0000,  3.0000,  0.5000, -6.0000])
    """

    name = "nvfp4"
    widths = (4, 8, 16)
    block = 16

    def rounded(self, x: Tensor, bits: Width, shared: Blocks, blocks: Blocks, noise: Noise, error: bool) -> Tensor:
        if isinstance(bits, int) and bits != 4:
            return super().rounded(x, bits, shared, blocks, noise, error)
        four = round_to_format(x, E2M1, Scaling.TWO_LEVELS, blocks, noise)
        if isinstance(bits, int):
            return four
        return torch.where(bits == 4, four, super().rounded(x, bits, shared, blocks, noise, error))

    def describe(self, bits: int, error: bool = False) -> str:
        return f"E2M1, blocks of {self.block}" if bits == 4 else super().describe(bits, error)
