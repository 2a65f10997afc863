"""What a width means: families of grids, one file each.

Another family is a subclass of :class:`GridFamily` with :func:`register_grid`; the contract tests in ``tests/grids``
run over everything that is registered.
"""

from bitcycle.grids import floating, integer, mx, nvfp4, symmetric  # noqa: F401
from bitcycle.grids.family import GRIDS, GridFamily, grid_family, register_grid

__all__ = ["GRIDS", "GridFamily", "grid_family", "register_grid"]
