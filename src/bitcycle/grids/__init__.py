"""What a width means: families of grids, one file each.

Another family is a subclass of :class:`GridFamily` with :func:`register_grid`; the contract tests in ``tests/grids``
run over everything that is registered.
"""

from bitcycle.grids import floating, integer, mx, nvfp4, symmetric  # noqa: F401
from bitcycle.grids.family import DEFAULT, GRIDS, GridFamily, grid_family, register_grid

INTEGERS = grid_family(DEFAULT)
"""The default family."""

__all__ = ["GRIDS", "INTEGERS", "GridFamily", "grid_family", "register_grid"]
