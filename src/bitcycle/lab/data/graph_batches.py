"""Batches of one large graph: sampled neighbourhoods (GraphSAGE, Hamilton et al., 2017).

Everything random comes from a generator of the caller or from (seed, step), so that a batch can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitcycle.kernels.noise import mix

Indices = NDArray[np.int64]


def random_part(count: int, parts: int, seed: int, step: int) -> Tensor:
    """Return the numbers below ``count`` for a step: in each epoch of ``parts`` steps, every number occurs once.

    >>> sorted(torch.cat([random_part(5, 2, seed=0, step=step) for step in (0, 1)]).tolist())
    [0, 1, 2, 3, 4]
    """
    epoch, part = divmod(step, parts)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(mix(seed, epoch) >> 1))
    return order[part::parts]


def step_generator(seed: int, step: int) -> np.random.Generator:
    """Return the random generator of a step."""
    return np.random.default_rng(mix(seed, step, 1))


@dataclass(frozen=True)
class Neighbourhood:
    """The part of a graph that a network of several layers needs to compute the outputs of some nodes.

    The nodes that a layer computes are always the first of those that it reads.
    """

    nodes: Tensor
    """The numbers of the nodes in the whole graph; the nodes whose outputs are computed come first."""
    edges: tuple[Tensor, ...]
    """For each layer, the edges (2, edges) between positions in ``nodes``; the first layer comes first."""
    targets: tuple[int, ...]
    """The number of nodes that each layer computes."""


class Adjacency:
    """The edges of an undirected graph, grouped by the node they point to. Every edge is present in both directions.

    >>> line = Adjacency(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), nodes=3)
    >>> sample = line.sampled(torch.tensor([0]), (2, 2), step_generator(seed=0, step=0))
    >>> sample.nodes.tolist(), sample.targets
    ([0, 1, 2], (2, 1))
    """

    def __init__(self, edges: Tensor, nodes: int) -> None:
        # The graph is undirected: reversing the edges that start at a node gives those that point to it. Our data is
        # sorted by the start of edges, for which a stable sort is fast.
        targets, sources = edges.numpy()
        self.nodes = nodes
        self._sources: Indices = sources[np.argsort(targets, kind="stable")]
        self._degrees: Indices = np.bincount(targets, minlength=nodes)
        self._starts: Indices = np.cumsum(self._degrees) - self._degrees

    def complete(self, nodes: Tensor) -> Neighbourhood:
        """Return the neighbourhood for one layer, with all neighbours of each node."""
        sources, edges = self._layer(nodes.numpy(), *self._all(nodes.numpy()))
        return Neighbourhood(torch.from_numpy(sources), (edges,), (len(nodes),))

    def sampled(self, seeds: Tensor, fan_outs: tuple[int, ...], generator: np.random.Generator) -> Neighbourhood:
        """Return a random neighbourhood: for each layer at most ``fan_out`` neighbours per node, without repetition."""
        nodes: Indices = seeds.numpy()
        layers: list[Tensor] = []
        targets: list[int] = []
        for fan_out in reversed(fan_outs):
            targets.insert(0, len(nodes))
            nodes, edges = self._layer(nodes, *self._sample(nodes, fan_out, generator))
            layers.insert(0, edges)
        return Neighbourhood(torch.from_numpy(nodes), tuple(layers), tuple(targets))

    def _layer(self, nodes: Indices, edges: Indices, into: Indices) -> tuple[Indices, Tensor]:
        """Append the sources of the edges to the nodes, and express the edges as positions in the result."""
        sources = self._sources[edges]
        new = np.zeros(self.nodes, bool)
        new[sources] = True
        new[nodes] = False
        nodes = np.concatenate((nodes, np.flatnonzero(new)))
        positions = np.empty(self.nodes, np.int64)
        positions[nodes] = np.arange(len(nodes))
        return nodes, torch.from_numpy(np.stack((positions[sources], into)))

    def _all(self, nodes: Indices) -> tuple[Indices, Indices]:
        """Return the edges to the nodes, and for each edge the position of the node."""
        degrees = self._degrees[nodes]
        into = np.repeat(np.arange(len(nodes)), degrees)
        before = np.cumsum(degrees) - degrees
        return np.arange(len(into)) + (self._starts[nodes] - before)[into], into

    def _sample(self, nodes: Indices, count: int, generator: np.random.Generator) -> tuple[Indices, Indices]:
        """Return the same for at most ``count`` random edges per node."""
        large = np.flatnonzero(self._degrees[nodes] > count)
        small = np.flatnonzero(self._degrees[nodes] <= count)
        all_edges, into = self._all(nodes[small])
        chosen = distinct_below(self._degrees[nodes[large]], count, generator)
        sampled_edges = (chosen + self._starts[nodes[large]][:, None]).ravel()
        return np.concatenate((all_edges, sampled_edges)), np.concatenate((small[into], np.repeat(large, count)))


def distinct_below(bounds: Indices, count: int, generator: np.random.Generator) -> Indices:
    """Draw ``count`` distinct numbers below each bound, uniformly over all subsets; one row per bound.

    This is Floyd's algorithm, whose cost does not depend on the bounds: for j = bound - count to bound - 1, draw a
    number from 0 to j, and take j instead if the number has been drawn already.

    >>> np.sort(distinct_below(np.array([3, 3]), 3, step_generator(0, 0))).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    chosen = np.empty((len(bounds), count), np.int64)
    for column in range(count if len(bounds) else 0):
        last = bounds - count + column
        drawn = generator.integers(0, last + 1)
        taken = (chosen[:, :column] == drawn[:, None]).any(1)
        chosen[:, column] = np.where(taken, last, drawn)
    return chosen
