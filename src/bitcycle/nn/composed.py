"""Layers of torch whose ``forward`` is a call of one function: they compute as user code that calls the function."""

from __future__ import annotations

from torch import nn

from bitcycle.nn.functional_ops import FunctionalOps
from bitcycle.nn.registry import register


@register(nn.Bilinear)
class QuantizedBilinear(FunctionalOps):
    """``y_o = x1^T W_o x2 + b_o``: one product of three operands, each on its grid."""

    own_product = "bilinear"


@register(nn.LinearCrossEntropyLoss)
class QuantizedLinearCrossEntropyLoss(FunctionalOps):
    """The cross entropy of ``x W^T + b``."""

    owns = ("linear",)
    own_product = "linear_cross_entropy"
