"""What a graph data set is: nodes with features and classes, undirected edges, and three parts of the nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class GraphData:
    """A graph whose nodes are to be classified.

    `x` is float32 (nodes, features), `y` the int64 class of each node, `edges` int64 (2, edges): every edge in both
    directions, none twice, none from a node to itself. The parts are numbers of nodes.
    """

    name: str
    x: Tensor
    edges: Tensor
    y: Tensor
    train: Tensor
    validation: Tensor
    test: Tensor
    classes: int


def undirected(sources: NDArray[np.int64], targets: NDArray[np.int64], nodes: int) -> Tensor:
    """The edges in both directions, sorted, without doubles and without those from a node to itself.

    >>> undirected(np.array([0, 1, 2, 2]), np.array([1, 0, 2, 1]), 3)
    tensor([[0, 1, 1, 2],
            [1, 0, 2, 1]])
    """
    proper = sources != targets
    a, b = sources[proper], targets[proper]
    numbered = np.unique(np.concatenate((a * nodes + b, b * nodes + a)))  # one number an edge: sorting is fast
    return torch.from_numpy(np.stack(np.divmod(numbered, nodes)))
