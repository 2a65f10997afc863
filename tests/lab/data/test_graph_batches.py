"""Batches of a graph: what is dealt out, what is induced, what is sampled."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitcycle.lab.data.graph_batches import Adjacency, distinct_below, random_part, step_generator
from bitcycle.lab.data.graphs import digits_graph, undirected
from bitcycle.lab.models.graph_networks import GAT, SAGE


@st.composite
def graphs(draw):
    """The edges of a random graph and its number of nodes; some nodes may have no neighbour."""
    nodes = draw(st.integers(1, 25))
    ends = st.integers(0, nodes - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=80))
    sources, targets = np.array(pairs, np.int64).reshape(-1, 2).T
    return undirected(sources, targets, nodes), nodes


def some_of(nodes, seed):
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))
    return order[: max(1, nodes // 2)]


def pairs_of(edges, sources, targets):
    """Edges between places as edges between nodes."""
    return [(int(sources[a]), int(targets[b])) for a, b in edges.T.tolist()]


# Dealing out


@given(count=st.integers(1, 60), parts=st.integers(1, 9), seed=st.integers(0, 5), epoch=st.integers(0, 3))
def test_everything_is_dealt_out_once_an_epoch(count, parts, seed, epoch):
    hands = [random_part(count, parts, seed, epoch * parts + part) for part in range(parts)]
    assert sorted(torch.cat(hands).tolist()) == list(range(count))
    assert max(map(len, hands)) - min(map(len, hands)) <= 1
    assert torch.equal(random_part(count, parts, seed, epoch * parts), hands[0])


# Sampled neighbourhoods


@given(graph=graphs(), fan_outs=st.lists(st.integers(1, 6), min_size=1, max_size=3), seed=st.integers(0, 9))
def test_sampled_neighbours_are_true_few_and_different(graph, fan_outs, seed):
    edges, nodes = graph
    few = some_of(nodes, seed)
    found = Adjacency(edges, nodes).sampled(few, tuple(fan_outs), step_generator(seed, 0))
    true = Counter(map(tuple, edges.T.tolist()))
    degrees = Counter(b for _, b in true)
    assert torch.equal(found.nodes[: len(few)], few)
    assert len(found.nodes.unique()) == len(found.nodes)
    assert found.targets[-1] == len(few)
    for fan_out, layer, targets in zip(fan_outs, found.edges, found.targets, strict=True):
        sampled = pairs_of(layer, found.nodes, found.nodes)
        assert max(Counter(sampled).values(), default=1) == 1
        assert set(sampled) <= set(true)
        assert all(b < targets for b in layer[1].tolist())
        counts = Counter(b for _, b in sampled)
        for node in found.nodes[:targets].tolist():
            assert counts[node] == min(degrees[node], fan_out)
    for layer, read in zip(found.edges, (len(found.nodes), *found.targets), strict=False):
        assert (layer[0] < read).all()  # a layer reads what the one before it computes


def test_samples_are_a_function_of_seed_and_step():
    data = digits_graph()
    adjacency = Adjacency(data.edges, len(data.y))

    def sample(seed, step):
        return adjacency.sampled(data.train, (3, 3), step_generator(seed, step))

    first, again = sample(1, 2), sample(1, 2)
    assert all(torch.equal(a, b) for a, b in zip(first.edges, again.edges, strict=True))
    assert torch.equal(first.nodes, again.nodes)
    for seed, step in ((1, 3), (2, 2)):
        assert not torch.equal(first.edges[-1], sample(seed, step).edges[-1])


def test_every_choice_is_equally_likely():
    rows = np.sort(distinct_below(np.full(20_000, 5), 2, step_generator(0, 0)), axis=1)
    counts = Counter(map(tuple, rows.tolist()))
    assert len(counts) == 10
    assert all(abs(count - 2000) < 5 * 2000**0.5 for count in counts.values())


# What it is for


@pytest.mark.slow
@pytest.mark.parametrize("network", [SAGE, GAT])
def test_with_all_neighbours_a_sample_says_what_the_whole_graph_says(network):
    torch.manual_seed(0)
    data = digits_graph()
    model = network(64, 16, 10, layers=3).eval()
    adjacency = Adjacency(data.edges, len(data.y))
    few = data.test[:20]
    found = adjacency.sampled(few, (10**6,) * 3, step_generator(0, 0))
    with torch.no_grad():
        whole = model(data.x, data.edges)
        torch.testing.assert_close(model(data.x[found.nodes], found.edges, found.targets), whole[few])
