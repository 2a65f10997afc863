"""Graph networks: GCN (Kipf and Welling, 2017), GraphSAGE (Hamilton et al., 2017), GAT (Velickovic et al., 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle._support.extras import need


class GraphNetwork(nn.Module):
    """Graph convolutions with layer norm, ReLU and dropout in between. The outputs are logits.

    ``model(x, edges)`` computes a whole graph. ``model(x, edges, targets)`` computes a sampled ``Neighbourhood``: the
    edges of each layer, and the number of nodes that the layer computes, which are the first ones.

    Args:
        features: Features per node.
        hidden: Units of hidden layers.
        classes: Number of classes.
        layers: Number of graph convolutions.
        dropout: Dropout probability.
        normalised: Whether there are layer norms. Small citation graphs do better without.
        **options: Further arguments of the convolutions.
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        classes: int,
        layers: int = 3,
        dropout: float = 0.2,
        normalised: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        sizes = [features, *[hidden] * (layers - 1), classes]
        self.convolutions = nn.ModuleList(
            self.convolution(inputs, outputs, **options) for inputs, outputs in pairwise(sizes)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) if normalised else nn.Identity() for _ in range(layers - 1))
        self.relu = nn.ReLU()
        self.dropout = dropout

    def convolution(self, in_channels: int, out_channels: int, **options: Any) -> nn.Module:
        """Create one graph convolution."""
        raise AssertionError(f"{type(self).__name__} must override convolution")

    def forward(self, x: Tensor, edges: Tensor | Sequence[Tensor], targets: Sequence[int] | None = None) -> Tensor:
        for index in range(len(self.convolutions)):
            if targets is None:
                x = self.layer(index, x, edges)
            else:
                x = self.layer(index, (x, x[: targets[index]]), edges[index])
        return x

    def layer(self, index: int, x: Tensor | tuple[Tensor, Tensor], edges: Any) -> Tensor:
        """Compute one layer from the features of sources and targets, or from one tensor if they are the same nodes."""
        out: Tensor = self.convolutions[index](x, edges)
        if index == len(self.norms):
            return out
        return F.dropout(self.relu(self.norms[index](out)), self.dropout, self.training)


class GCN(GraphNetwork):
    """Convolutions that sum over neighbours, normalised by degrees."""

    def convolution(self, in_channels: int, out_channels: int, **options: Any) -> nn.Module:
        return _layers().GCNConv(in_channels, out_channels, **options)


class SAGE(GraphNetwork):
    """Convolutions that combine each node with the mean of its neighbours."""

    def convolution(self, in_channels: int, out_channels: int, **options: Any) -> nn.Module:
        return _layers().SAGEConv(in_channels, out_channels, **options)


class GAT(GraphNetwork):
    """Attention over neighbours with four heads, which are averaged."""

    def convolution(self, in_channels: int, out_channels: int, **options: Any) -> nn.Module:
        return _layers().GATConv(in_channels, out_channels, heads=4, concat=False, **options)


def _layers() -> Any:
    return need("torch_geometric.nn", "graph", "a graph network")
