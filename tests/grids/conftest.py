"""The laws of grids hold for both kernels."""

from tests.kernels.conftest import kernels

__all__ = ["kernels"]
