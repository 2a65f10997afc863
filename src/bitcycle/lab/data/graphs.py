"""Graph data sets, and the embedded one: the nearest-neighbour graph of scikit-learn's digits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitcycle.lab.data.digits_file import read_digits
from bitcycle.lab.data.splits import Splits

_NOISE = 1.0
_TRAINING_PER_CLASS, _VALIDATION, _TEST = 20, 300, 1000


@dataclass(frozen=True)
class GraphData(Splits[Tensor]):
    """A graph whose nodes are to be classified. The splits are node numbers, int64."""

    name: str
    x: Tensor
    """Features of the nodes, float32 (nodes, features)."""
    edges: Tensor
    """int64 (2, edges): every edge in both directions, without duplicates and self-loops."""
    y: Tensor
    """The class of each node, int64."""
    train: Tensor
    validation: Tensor
    test: Tensor
    classes: int
    """Number of classes."""


def undirected(sources: NDArray[np.int64], targets: NDArray[np.int64], nodes: int) -> Tensor:
    """Return the edges in both directions, sorted, without duplicates and self-loops.

    >>> undirected(np.array([0, 1, 2, 2]), np.array([1, 0, 2, 1]), 3)
    tensor([[0, 1, 1, 2],
            [1, 0, 2, 1]])
    """
    proper = sources != targets
    a, b = sources[proper], targets[proper]
    numbered = np.unique(np.concatenate((a * nodes + b, b * nodes + a)))  # sorting one number per edge is fast
    return torch.from_numpy(np.stack(np.divmod(numbered, nodes)))


def digits_graph(neighbours: int = 8) -> GraphData:
    """Return the nearest-neighbour graph of scikit-learn's 1,797 digits, with 20 training nodes per class.

    The features are the 64 pixels in [0, 1] plus Gaussian noise of standard deviation 1. The edges come from the clean
    pixels, so that averaging over neighbours removes noise.

    Args:
        neighbours: Each digit is connected to this number of most similar digits.

    >>> data = digits_graph()
    >>> data.x.shape, len(data.train), len(data.validation), len(data.test)
    (torch.Size([1797, 64]), 200, 300, 1000)
    """
    images, classes = read_digits()
    pixels, labels = images.reshape(len(images), -1), torch.from_numpy(classes)
    if not 1 <= neighbours < len(labels):
        raise ValueError(f"neighbours must be from 1 to {len(labels) - 1}, got {neighbours}")
    noise = _NOISE * np.random.default_rng(0).standard_normal(pixels.shape)
    x = torch.from_numpy(pixels / 16 + noise).float()
    sources = np.repeat(np.arange(len(labels)), neighbours)
    edges = undirected(sources, nearest_points(pixels, neighbours).ravel(), len(labels))
    return GraphData("digits-graph", x, edges, labels, *_splits(labels), 10)


def nearest_points(points: NDArray[np.int64], neighbours: int) -> NDArray[np.int64]:
    """Return the indices of the nearest other points of each point. Ties go to the lower index.

    >>> nearest_points(np.array([[0], [1], [2], [9]]), 1).tolist()
    [[1], [0], [1], [2]]
    """
    squares = (points * points).sum(1)
    distances = squares[:, None] + squares[None, :] - 2 * points @ points.T  # integers, so that ties are exact
    ranked = distances * len(points) + np.arange(len(points))  # breaks ties within a row
    np.fill_diagonal(ranked, np.iinfo(np.int64).max)
    return np.sort(np.partition(ranked, neighbours, axis=1)[:, :neighbours], axis=1) % len(points)


def _splits(labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split a fixed permutation: 20 nodes per class, then 300 and 1,000 of the others."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    classes = [order[labels[order] == label] for label in range(10)]
    train = torch.cat([members[:_TRAINING_PER_CLASS] for members in classes])
    rest = order[~torch.isin(order, train)]
    return train, rest[:_VALIDATION], rest[_VALIDATION : _VALIDATION + _TEST]
