"""The built-in families of grids. This table does not load torch, so that commands and shell completion can read it."""

GRID_MODULES = {"integer": "integer", "symmetric": "symmetric", "float": "floating", "mx": "mx", "nvfp4": "nvfp4"}
"""The module in :mod:`bitcycle.grids` that registers each family, by the name of the family."""
