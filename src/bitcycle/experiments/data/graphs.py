"""Graph data: the nearest-neighbour graph of scikit-learn's digits, and the official formats from a folder."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitcycle._support.extras import need
from bitcycle.experiments.data.graph_data import GraphData, undirected
from bitcycle.experiments.data.ogb import read_ogb
from bitcycle.experiments.data.planetoid import read_planetoid

__all__ = ["GraphData", "digits_graph", "read_ogb", "read_planetoid"]

_NOISE = 1.0
_TRAINED_PER_CLASS, _VALIDATION, _TEST = 20, 300, 1000


def digits_graph(neighbours: int = 8) -> GraphData:
    """The 1,797 digits of scikit-learn, each joined to those most like it; 20 of each class are for training.

    The features are the 64 pixels from 0 to 1 plus Gaussian noise of standard deviation 1, while the edges come from
    the clean pixels: a digit alone says little, and averaging over neighbours brings it out.

    >>> data = digits_graph()
    >>> data.x.shape, len(data.train), len(data.validation), len(data.test)
    (torch.Size([1797, 64]), 200, 300, 1000)
    """
    bunch = need("sklearn.datasets", "study", "the digits data").load_digits()
    pixels, labels = bunch.data.astype(np.int64), torch.from_numpy(bunch.target).long()
    if not 1 <= neighbours < len(labels):
        raise ValueError(f"neighbours is a number from 1 to {len(labels) - 1}, not {neighbours}")
    noise = _NOISE * np.random.default_rng(0).standard_normal(pixels.shape)
    x = torch.from_numpy(pixels / 16 + noise).float()
    sources = np.repeat(np.arange(len(labels)), neighbours)
    edges = undirected(sources, nearest(pixels, neighbours).ravel(), len(labels))
    return GraphData("digits-graph", x, edges, labels, *_parts(labels), 10)


def nearest(points: NDArray[np.int64], neighbours: int) -> NDArray[np.int64]:
    """The numbers of the nearest other points of each point; of points equally far, those with the lower number.

    >>> nearest(np.array([[0], [1], [2], [9]]), 1).tolist()
    [[1], [0], [1], [2]]
    """
    squares = (points * points).sum(1)
    distances = squares[:, None] + squares[None, :] - 2 * points @ points.T  # whole numbers, so ties are exact
    ranked = distances * len(points) + np.arange(len(points))  # no two in a row are equal any more
    np.fill_diagonal(ranked, np.iinfo(np.int64).max)
    return np.sort(np.partition(ranked, neighbours, axis=1)[:, :neighbours], axis=1) % len(points)


def _parts(labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Twenty nodes of each class, then 300 and 1,000 of the others, all along one fixed permutation."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    of_class = [order[labels[order] == label] for label in range(10)]
    train = torch.cat([members[:_TRAINED_PER_CLASS] for members in of_class])
    rest = order[~torch.isin(order, train)]
    return train, rest[:_VALIDATION], rest[_VALIDATION : _VALIDATION + _TEST]
