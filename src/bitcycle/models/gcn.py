"""Graph convolutional network (Kipf and Welling, 2017) with layer normalisation, as the paper trains it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.extras import need

if TYPE_CHECKING:
    from torch_geometric.nn import GCNConv


class GCN(nn.Module):
    """Graph convolutions; between them layer norm over each node's features, ReLU and dropout. Gives logits."""

    def __init__(
        self, features: int, hidden: int, classes: int, layers: int = 3, dropout: float = 0.2, **options: Any
    ) -> None:
        super().__init__()
        need("torch_geometric", "graph", "a graph network")
        from torch_geometric.nn import GCNConv

        sizes = [features, *[hidden] * (layers - 1), classes]
        self.convolutions = nn.ModuleList(GCNConv(inside, outside, **options) for inside, outside in pairwise(sizes))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers - 1))
        self.dropout = dropout

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        last: GCNConv = self.convolutions[-1]
        for convolution, norm in zip(self.convolutions, self.norms, strict=False):
            x = F.dropout(F.relu(norm(convolution(x, edges))), self.dropout, self.training)
        return last(x, edges)
