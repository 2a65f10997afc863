"""LinearCrossEntropyLoss: the last layer of a classifier together with its loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.kernels.rounding import Dims
from bitcycle.nn.linear import LinearLayer
from bitcycle.nn.registry import register


@register(nn.LinearCrossEntropyLoss)
class QuantizedLinearCrossEntropyLoss(LinearLayer):
    """The cross entropy of ``x W^T + b``. Its site is ``linear``, and all logits are in memory at once."""

    owns = ("linear",)
    linear: nn.Linear
    num_classes: int
    out_features: tuple[int, ...]
    weight: Tensor | None
    reduction: str
    ignore_index: int | None
    label_smoothing: float

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return ["linear"]

    def quantized_forward(self, input: Tensor, target: Tensor) -> Tensor:
        logits = self.linear_product("linear", input, self.linear.weight, self.linear.bias)
        return cross_entropy(
            logits.unflatten(-1, (self.num_classes, *self.out_features)),
            target,
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )

    def weights_on_grid(self) -> Iterator[tuple[str, Tensor, Dims]]:
        yield from self.weight_and_bias("linear", self.linear.weight, self.linear.bias)


def cross_entropy(logits: Tensor, target: Tensor, *, ignore_index: int | None, **others: Any) -> Tensor:
    """Return the cross entropy of logits, with the default of ``F.linear_cross_entropy`` for ``ignore_index``."""
    return F.cross_entropy(logits, target, ignore_index=-100 if ignore_index is None else ignore_index, **others)
