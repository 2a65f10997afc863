"""torch_geometric: its Linear, and message passing with full-precision or quantised aggregation.

FP-Agg (``Recipe(aggregation="full")``): aggregation and degree normalisation stay in full precision.
Q-Agg (``Recipe(aggregation="quantized")``): features are rounded to the forward bits just before they are aggregated,
and grad_output of the aggregation to the backward bits. With one grid per row, rounding before or after an edge weight
scales the features gives the same result. All kinds of message passing therefore round their messages.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense import Linear as GraphLinear

from bitcycle.arithmetic import (
    AggregationProduct,
    OperandSpec,
    Role,
    computing,
    report_product,
    round_grad_output,
    round_operand,
)
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip, SkipKind
from bitcycle.nn.functional_ops import run_at_sites
from bitcycle.nn.interception import hide_products
from bitcycle.nn.layer import ConvertedModule, QuantizedLayer, conversion_of, feature_dims
from bitcycle.nn.linear import LinearLayer
from bitcycle.nn.registry import register


@register(GraphLinear)
class QuantizedGraphLinear(LinearLayer):
    """``y = x W^T + b`` with one grid per node, ``node_features`` in the recipe."""

    weight: Tensor
    bias: Tensor | None

    def quantized_forward(self, x: Tensor) -> Tensor:
        return self.linear_product("", x, self.weight, self.bias, self.bitcycle.recipe.node_features)


class MessagePassingAtSites(ConvertedModule):
    """Message passing whose own products, and whose aggregation, are computed at sites."""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return run_at_sites(self, super().forward, arguments, keywords)  # type: ignore[misc]

    def aggregate(self, inputs: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        """Round the messages, then run the layer's own aggregation."""
        site = self.bitcycle.sites.get("aggregate")
        if site is None:
            with hide_products():
                return super().aggregate(inputs, *arguments, **keywords)  # type: ignore[misc]
        with computing(site), hide_products():
            out = super().aggregate(_round(self, inputs), *arguments, **keywords)  # type: ignore[misc]
        return round_grad_output(site, report_product(site, AggregationProduct(len(inputs)), inputs, None, out))

    def message_and_aggregate(self, edge_index: Any, *arguments: Any, **keywords: Any) -> Tensor:
        """Do the same where messages and aggregation are one sparse product."""
        site = self.bitcycle.sites.get("aggregate")
        if site is None:
            with hide_products():
                return super().message_and_aggregate(edge_index, *arguments, **keywords)  # type: ignore[misc]
        arguments = tuple(_round(self, argument) for argument in arguments)
        keywords = {name: _round(self, argument) for name, argument in keywords.items()}
        with computing(site), hide_products():
            out = super().message_and_aggregate(edge_index, *arguments, **keywords)  # type: ignore[misc]
        edges = edge_index.nnz() if hasattr(edge_index, "nnz") else edge_index._nnz()
        return round_grad_output(site, report_product(site, AggregationProduct(edges), out, None, out))


@register(MessagePassing)
class QuantizedMessagePassing(QuantizedLayer):
    """Any message passing: products in its own code, and quantised aggregation (Q-Agg)."""

    replaces = ()
    sums_elementwise = True
    is_intercepted = True
    front = MessagePassingAtSites

    @classmethod
    def site_names(cls, module: nn.Module, recipe: Recipe) -> list[str]:
        return ["aggregate"] if recipe.aggregation == "quantized" else []

    @classmethod
    def skips(cls, module: nn.Module, recipe: Recipe) -> tuple[Skip, ...]:
        return (Skip(SkipKind.FULL_PRECISION_AGGREGATION),) if recipe.aggregation == "full" else ()

    @classmethod
    def refuses(cls, module: nn.Module, recipe: Recipe) -> str | None:
        if recipe.family.block is None or recipe.aggregation == "full":
            return None
        return "aggregation sums over edges, which have no order for blocks: leave aggregation='full'"

    @classmethod
    def uncounted_weights(cls, module: nn.Module) -> tuple[str, ...]:
        conversion = conversion_of(module)
        if conversion is not None and any(local.startswith(":") for local in conversion.sites):
            return ()  # they are operands of its matrix products, which are sites
        return tuple(name for name, parameter in module.named_parameters(recurse=False) if parameter.dim() > 1)


def _round(module: ConvertedModule, features: Any) -> Any:
    """Round what is aggregated: node features, or a tuple of them. Return everything else unchanged."""
    if isinstance(features, tuple):
        return tuple(_round(module, part) for part in features)
    if not (isinstance(features, Tensor) and features.is_floating_point() and features.dim() > 1):
        return features
    if features.layout is not torch.strided:
        return features
    site = module.bitcycle.sites["aggregate"]
    dims = feature_dims(site.recipe.node_features, features)
    return round_operand(site, features, OperandSpec(dims, role=Role.ACTIVATION), module.training, "a")
