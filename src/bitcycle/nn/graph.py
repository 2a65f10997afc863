"""torch_geometric: its Linear, and message passing with full-precision or quantised aggregation.

FP-Agg (``Recipe(aggregation="full")``): aggregation and degree normalisation stay in full precision.
Q-Agg (``Recipe(aggregation="quantized")``): features go on the bits just before they are aggregated, and the error at
the aggregation's output on the backward bits. On a grid for each row it does not matter whether features are rounded
before or after an edge weight scales them, so messages are what goes on the grid, in any kind of message passing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense import Linear as GraphLinear

from bitcycle.arithmetic import Aggregation, Linear, Operand, computing, error_on_grid, multiplied, on_grid
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.nn.code_scan import visible_products
from bitcycle.nn.layer import QuantizedLayer, feature_dims, weight_dims
from bitcycle.nn.registry import register


@register(GraphLinear)
class QuantizedGraphLinear(QuantizedLayer):
    """``y = x W^T + b`` with a grid for each node's features."""

    weight: Tensor
    bias: Tensor | None

    def quantized_forward(self, x: Tensor) -> Tensor:
        recipe = self.bitcycle.recipe
        of_x = Operand(feature_dims(recipe.features, x))
        of_weight = Operand(weight_dims(recipe.weights, self.weight))
        bias = self.bias_on_grid("", self.bias)
        return self.multiply("", Linear(), x, self.weight, bias, of_a=of_x, of_b=of_weight)


@register(MessagePassing)
class QuantizedMessagePassing(QuantizedLayer):
    """Quantised aggregation (Q-Agg) of any message passing."""

    replaces = ()

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return ["aggregate"] if recipe.aggregation == "quantized" else []

    @classmethod
    def in_full_precision(cls, module: nn.Module, recipe: Recipe) -> str:
        reasons = []
        if recipe.aggregation == "full":
            reasons.append("aggregation in full precision (FP-Agg) unless Recipe(aggregation='quantized')")
        own = cls.uncounted(module)
        if own:
            reasons.append(f"{own} in full precision")
        return "; ".join(reasons)

    @classmethod
    def unknown_products(cls, module: nn.Module) -> tuple[str, ...]:
        own = ("forward", "message", "edge_update", "update")
        return visible_products(type(module), own, skip=("propagate", "aggregate", "message_and_aggregate"))

    @classmethod
    def uncounted(cls, module: nn.Module) -> str:
        own = [name for name, parameter in module.named_parameters(recurse=False) if parameter.dim() > 1]
        return f"message weights {', '.join(own)}" if own else ""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return super(QuantizedLayer, self).forward(*arguments, **keywords)  # type: ignore[misc]

    def aggregate(self, inputs: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        """Messages on the grid, then the layer's own aggregation."""
        site = self.bitcycle.sites["aggregate"]
        with computing(site):
            out = super().aggregate(self._on_grid(inputs), *arguments, **keywords)  # type: ignore[misc]
        return error_on_grid(site, multiplied(site, Aggregation(len(inputs)), inputs, None, out))

    def message_and_aggregate(self, edge_index: Any, *arguments: Any, **keywords: Any) -> Tensor:
        """The same where messages and aggregation are one sparse product."""
        arguments = tuple(self._on_grid(argument) for argument in arguments)
        keywords = {name: self._on_grid(argument) for name, argument in keywords.items()}
        site = self.bitcycle.sites["aggregate"]
        with computing(site):
            out = super().message_and_aggregate(edge_index, *arguments, **keywords)  # type: ignore[misc]
        edges = edge_index.nnz() if hasattr(edge_index, "nnz") else edge_index._nnz()
        return error_on_grid(site, multiplied(site, Aggregation(edges), out, None, out))

    def _on_grid(self, features: Any) -> Any:
        if isinstance(features, tuple):
            return tuple(self._on_grid(part) for part in features)
        if not (isinstance(features, Tensor) and features.is_floating_point() and features.dim() > 1):
            return features
        if features.layout is not torch.strided:
            return features
        site = self.bitcycle.sites["aggregate"]
        return on_grid(site, features, feature_dims(site.recipe.features, features), self.training, "a")
