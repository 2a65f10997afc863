"""What a width means: families of grids, one file each.

Another family is a subclass of :class:`GridFamily` with :func:`register_grid`; the contract tests in ``tests/grids``
run over everything that is registered. A built-in one has its module in ``bitcycle/_support/grid_names.py``.

Example:
    >>> import torch
    >>> @register_grid
    ... class SignGrid(GridFamily):
    ...     name = "sign"
    ...     widths = (1,)
    ...     def round(self, x, bits, dims=None, noise=None, *, along=None, error=False):
    ...         return torch.sign(x) * x.abs().mean() if bits else x
    ...     def describe(self, bits, error=False):
    ...         return "the mean magnitude with a sign"
    >>> grid_family("sign").round(torch.tensor([-1.0, 3.0]), bits=1)
    tensor([-2.,  2.])
    >>> _ = GRIDS.pop("sign")
"""

from importlib import import_module

from bitcycle._support.grid_names import GRID_MODULES
from bitcycle.grids.family import DEFAULT, GRIDS, GridFamily, grid_family, register_grid

for _module in GRID_MODULES.values():
    import_module(f"bitcycle.grids.{_module}")  # registers the family

INTEGERS = grid_family(DEFAULT)
"""The default family."""

__all__ = ["GRIDS", "INTEGERS", "GridFamily", "grid_family", "register_grid"]
