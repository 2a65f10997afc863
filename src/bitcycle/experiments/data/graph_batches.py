"""Batches out of one large graph: induced parts of it, and sampled neighbourhoods (GraphSAGE, Hamilton et al., 2017).

Everything random comes from a generator that the caller makes, or from (seed, step): the same batch at every call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitcycle.kernels.noise import mix

Numbers = NDArray[np.int64]


def dealt(count: int, parts: int, seed: int, step: int) -> Tensor:
    """The numbers below `count` that fall to a step: in each epoch of `parts` steps every number once, at random.

    >>> sorted(torch.cat([dealt(5, 2, seed=0, step=step) for step in (0, 1)]).tolist())
    [0, 1, 2, 3, 4]
    """
    epoch, part = divmod(step, parts)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(mix(seed, epoch) >> 1))
    return order[part::parts]


def generator_of(seed: int, step: int) -> np.random.Generator:
    """The random numbers of a step."""
    return np.random.default_rng(mix(seed, step, 1))


@dataclass(frozen=True)
class Neighbourhood:
    """What a network of several layers needs of a graph to say something about a few nodes.

    The nodes that a layer computes are always the first ones of those that it reads.
    """

    nodes: Tensor
    """Numbers in the graph of all nodes that take part; the few come first."""
    edges: tuple[Tensor, ...]
    """For each layer (2, edges) from places in `nodes` to places in `nodes`, the first layer first."""
    targets: tuple[int, ...]
    """How many nodes each layer computes."""


class Adjacency:
    """The edges of a graph, those into a node side by side; every edge is there in both directions.

    >>> line = Adjacency(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), nodes=3)
    >>> line.induced(torch.tensor([2, 1]))
    tensor([[1, 0],
            [0, 1]])
    >>> sample = line.sampled(torch.tensor([0]), (2, 2), generator_of(seed=0, step=0))
    >>> sample.nodes.tolist(), sample.targets
    ([0, 1, 2], (2, 1))
    """

    def __init__(self, edges: Tensor, nodes: int) -> None:
        # The edges into a node are those out of it, turned round. Ours are sorted by where they begin, and then a
        # stable sort has nothing to do.
        targets, sources = edges.numpy()
        self.nodes = nodes
        self._sources: Numbers = sources[np.argsort(targets, kind="stable")]
        self._degrees: Numbers = np.bincount(targets, minlength=nodes)
        self._starts: Numbers = np.cumsum(self._degrees) - self._degrees

    def induced(self, nodes: Tensor) -> Tensor:
        """All edges between these nodes, from place to place in `nodes`."""
        places = np.full(self.nodes, -1)
        places[nodes.numpy()] = np.arange(len(nodes))
        edges, into = self._all(nodes.numpy())
        sources = places[self._sources[edges]]
        inside = sources >= 0
        return torch.from_numpy(np.stack((sources[inside], into[inside])))

    def complete(self, few: Tensor) -> Neighbourhood:
        """One layer with all neighbours of each node."""
        nodes, edges = self._layer(few.numpy(), *self._all(few.numpy()))
        return Neighbourhood(torch.from_numpy(nodes), (edges,), (len(few),))

    def sampled(self, few: Tensor, fan_outs: tuple[int, ...], generator: np.random.Generator) -> Neighbourhood:
        """For each layer, from the last one back, so many neighbours of each node at most, none of them twice."""
        nodes: Numbers = few.numpy()
        layers: list[Tensor] = []
        targets: list[int] = []
        for fan_out in reversed(fan_outs):
            targets.insert(0, len(nodes))
            nodes, edges = self._layer(nodes, *self._some(nodes, fan_out, generator))
            layers.insert(0, edges)
        return Neighbourhood(torch.from_numpy(nodes), tuple(layers), tuple(targets))

    def _layer(self, nodes: Numbers, edges: Numbers, into: Numbers) -> tuple[Numbers, Tensor]:
        """The nodes with the sources of the edges behind them, and the edges from place to place in that."""
        sources = self._sources[edges]
        new = np.zeros(self.nodes, bool)
        new[sources] = True
        new[nodes] = False
        nodes = np.concatenate((nodes, np.flatnonzero(new)))
        places = np.empty(self.nodes, np.int64)
        places[nodes] = np.arange(len(nodes))
        return nodes, torch.from_numpy(np.stack((places[sources], into)))

    def _all(self, nodes: Numbers) -> tuple[Numbers, Numbers]:
        """The edges into the nodes, and the place of the node that each goes into."""
        degrees = self._degrees[nodes]
        into = np.repeat(np.arange(len(nodes)), degrees)
        before = np.cumsum(degrees) - degrees
        return np.arange(len(into)) + (self._starts[nodes] - before)[into], into

    def _some(self, nodes: Numbers, most: int, generator: np.random.Generator) -> tuple[Numbers, Numbers]:
        """The same with so many edges into each node at most, chosen at random."""
        crowded = np.flatnonzero(self._degrees[nodes] > most)
        quiet = np.flatnonzero(self._degrees[nodes] <= most)
        all_edges, into = self._all(nodes[quiet])
        chosen = different_below(self._degrees[nodes[crowded]], most, generator)
        some_edges = (chosen + self._starts[nodes[crowded]][:, None]).ravel()
        return np.concatenate((all_edges, some_edges)), np.concatenate((quiet[into], np.repeat(crowded, most)))


def different_below(bounds: Numbers, count: int, generator: np.random.Generator) -> Numbers:
    """For each bound, `count` different numbers below it, each choice equally likely: a row each.

    By Floyd's algorithm, whose work does not grow with the bounds: draw from 0 to j for j = bound - count to bound - 1,
    and take j itself if the number is there already.

    >>> np.sort(different_below(np.array([3, 3]), 3, generator_of(0, 0))).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    chosen = np.empty((len(bounds), count), np.int64)
    for place in range(count if len(bounds) else 0):
        last = bounds - count + place
        drawn = generator.integers(0, last + 1)
        taken = (chosen[:, :place] == drawn[:, None]).any(1)
        chosen[:, place] = np.where(taken, last, drawn)
    return chosen
