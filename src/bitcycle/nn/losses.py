"""LinearCrossEntropyLoss: the last layer of a classifier together with its loss."""

from __future__ import annotations

from torch import nn

from bitcycle.nn.functional_ops import FunctionalOps
from bitcycle.nn.registry import register


@register(nn.LinearCrossEntropyLoss)
class QuantizedLinearCrossEntropyLoss(FunctionalOps):
    """The cross entropy of ``x W^T + b``, whose code calls the function that computes it."""

    owns = ("linear",)
    own_product = "linear_cross_entropy"
