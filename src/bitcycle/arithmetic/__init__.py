"""The three products of a site (output, input gradient, weight gradient) at its current bits."""

from bitcycle.arithmetic.functions import multiply, round_grad_output, round_operand
from bitcycle.arithmetic.observers import Observer, computing, observing, report_product
from bitcycle.arithmetic.operands import OperandSpec
from bitcycle.arithmetic.precision import Role
from bitcycle.arithmetic.products import (
    AggregationProduct,
    ComposedProduct,
    ConvolutionProduct,
    Counted,
    LinearProduct,
    MatmulProduct,
    Product,
    TrilinearProduct,
)
from bitcycle.arithmetic.site import Site

__all__ = [
    "AggregationProduct",
    "ComposedProduct",
    "ConvolutionProduct",
    "Counted",
    "LinearProduct",
    "MatmulProduct",
    "Observer",
    "OperandSpec",
    "Product",
    "Role",
    "Site",
    "TrilinearProduct",
    "computing",
    "multiply",
    "observing",
    "report_product",
    "round_grad_output",
    "round_operand",
]
