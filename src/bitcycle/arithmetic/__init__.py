"""The three products of a site: output, input gradient, weight gradient, on the bits of the moment."""

from bitcycle.arithmetic.functions import Operand, error_on_grid, multiplied, multiply, on_grid
from bitcycle.arithmetic.products import Aggregation, Convolution, Counted, Linear, Matmul, Product, Trilinear
from bitcycle.arithmetic.site import Observer, Site, computing, observing

__all__ = [
    "Aggregation",
    "Convolution",
    "Counted",
    "Linear",
    "Matmul",
    "Observer",
    "Operand",
    "Product",
    "Site",
    "Trilinear",
    "computing",
    "error_on_grid",
    "multiplied",
    "multiply",
    "observing",
    "on_grid",
]
