"""The three products of a site: output, input gradient, weight gradient, on the bits of the moment."""

from bitcycle.arithmetic.functions import Operand, error_on_grid, multiply, on_grid
from bitcycle.arithmetic.products import Convolution, Linear, Matmul, Product
from bitcycle.arithmetic.site import Event, Site, observing

__all__ = [
    "Convolution",
    "Event",
    "Linear",
    "Matmul",
    "Operand",
    "Product",
    "Site",
    "error_on_grid",
    "multiply",
    "observing",
    "on_grid",
]
