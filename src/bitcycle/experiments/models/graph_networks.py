"""Graph networks: GCN (Kipf and Welling, 2017), GraphSAGE (Hamilton et al., 2017), GAT (Velickovic et al., 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle._support.extras import need


class GraphNetwork(nn.Module):
    """Graph convolutions; between them layer norm over each node's features, ReLU and dropout. Gives logits.

    ``model(x, edges)`` is for a whole graph. ``model(x, edges, targets)`` is for a sampled neighbourhood: edges of each
    layer, and how many nodes, the first ones, it computes (a ``Neighbourhood``).
    Small citation graphs do better without the norm: ``normalised=False``.
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
            self.convolution(inside, outside, **options) for inside, outside in pairwise(sizes)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) if normalised else nn.Identity() for _ in range(layers - 1))
        self.dropout = dropout

    def convolution(self, inside: int, outside: int, **options: Any) -> nn.Module:
        """One graph convolution."""
        raise AssertionError(f"{type(self).__name__} does not say which convolution it is made of")

    def forward(self, x: Tensor, edges: Tensor | Sequence[Tensor], targets: Sequence[int] | None = None) -> Tensor:
        for place in range(len(self.convolutions)):
            if targets is None:
                x = self.layer(place, x, edges)
            else:
                x = self.layer(place, (x, x[: targets[place]]), edges[place])
        return x

    def layer(self, place: int, x: Tensor | tuple[Tensor, Tensor], edges: Any) -> Tensor:
        """One layer alone, from the features of sources and of targets; one tensor if they are the same nodes."""
        out: Tensor = self.convolutions[place](x, edges)
        if place == len(self.norms):
            return out
        return F.dropout(F.relu(self.norms[place](out)), self.dropout, self.training)


class GCN(GraphNetwork):
    """Sums over neighbours, normalised by degrees."""

    def convolution(self, inside: int, outside: int, **options: Any) -> nn.Module:
        return _layers().GCNConv(inside, outside, **options)


class SAGE(GraphNetwork):
    """Means over neighbours, beside the node itself."""

    def convolution(self, inside: int, outside: int, **options: Any) -> nn.Module:
        return _layers().SAGEConv(inside, outside, **options)


class GAT(GraphNetwork):
    """Attention over neighbours, the mean of four heads."""

    def convolution(self, inside: int, outside: int, **options: Any) -> nn.Module:
        return _layers().GATConv(inside, outside, heads=4, concat=False, **options)


def _layers() -> Any:
    return need("torch_geometric.nn", "graph", "a graph network")
