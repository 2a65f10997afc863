"""Graphs: the digits' neighbours, Planetoid and OGB, whole and damaged."""

import gzip
import pickle

import numpy as np
import pytest
import scipy.sparse
import torch

from bitcycle.lab.data.files import DataError
from bitcycle.lab.data.graphs import digits_graph, read_ogb, read_planetoid
from tests.lab.data.official import official
from tests.lab.data.tiny_sets import unpack_tiny


def is_a_proper_graph(data):
    nodes = len(data.y)
    assert data.x.shape[0] == nodes
    assert (data.x.dtype, data.y.dtype, data.edges.dtype) == (torch.float32, torch.int64, torch.int64)
    sources, targets = data.edges
    assert (sources != targets).all()
    numbered = sources * nodes + targets
    assert len(numbered.unique()) == len(numbered)
    assert torch.equal((targets * nodes + sources).sort().values, numbered.sort().values)
    together = torch.cat((data.train, data.validation, data.test))
    assert len(together.unique()) == len(together)
    assert 0 <= together.min() <= together.max() < nodes
    assert data.y.max() + 1 == data.classes
    return True


# The digits


def test_the_graph_of_the_digits():
    data = digits_graph()
    assert is_a_proper_graph(data)
    assert data.edges.shape == (2, 19_858)
    assert data.y[data.train].bincount().tolist() == [20] * 10
    assert (len(data.validation), len(data.test)) == (300, 1000)
    again = digits_graph()
    assert torch.equal(data.x, again.x)
    assert torch.equal(data.edges, again.edges)


# Planetoid


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "classes"),
    [("Cora", 2708, 10_556, 7), ("CiteSeer", 3327, 9_104, 6), ("PubMed", 19_717, 88_648, 3)],
)
def test_planetoid(name, nodes, edges, classes):
    data = read_planetoid(official("planetoid"), name)
    assert is_a_proper_graph(data)
    assert (len(data.y), data.edges.shape[1], data.classes) == (nodes, edges, classes)
    assert data.y[data.train].bincount().tolist() == [20] * classes
    assert (len(data.validation), len(data.test)) == (500, 1000)
    sums = data.x.sum(1)
    isolated = sums == 0
    torch.testing.assert_close(sums[~isolated], torch.ones(int((~isolated).sum())))
    assert isolated.sum() <= 15 + 3
    assert data.name == name.lower()
    if name == "CiteSeer":
        gaps = sorted(set(range(2312, 3327)) - set(data.test.tolist()))
        assert len(gaps) == 15
        assert not data.x[gaps].any()
        assert not data.y[gaps].any()


@pytest.fixture
def planetoid(tmp_path):
    return unpack_tiny("cora", tmp_path / "small")


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("x", np.zeros((8, 6)), "it should hold a sparse matrix"),
        ("tx", scipy.sparse.csr_matrix(np.eye(8, 6)), "differ in rows, features or classes"),
        ("tx", scipy.sparse.csr_matrix(np.full((9, 6), np.nan)), "not finite"),
        ("ally", np.full((510, 2), 3), "zeros and ones"),
        ("ally", np.ones((510, 2)), "a node of two classes"),
        ("ally", [1, 2], "zeros and ones"),
        ("graph", [1, 2], "a dictionary from each node"),
        ("graph", {0: [520]}, "numbers should be from 0 to 519"),
        ("graph", {}, "edge to an unknown node"),
    ],
)
def test_wrong_planetoid(planetoid, part, value, message):
    (planetoid / f"ind.cora.{part}").write_bytes(pickle.dumps(value))
    with pytest.raises(DataError, match=message):
        read_planetoid(planetoid, "cora")


@pytest.mark.parametrize(
    ("index", "message"),
    [("510\n511", "9 different node numbers"), ("x", "not a number"), ("1\n" * 9, "9 different"), ("", "9 different")],
)
def test_wrong_test_index(planetoid, index, message):
    (planetoid / "ind.cora.test.index").write_text(index)
    with pytest.raises(DataError, match=f"test.index: .*{message}"):
        read_planetoid(planetoid, "cora")
    (planetoid / "ind.cora.test.index").write_text("\n".join(map(str, [*range(510, 518), 10**12])))
    with pytest.raises(DataError, match="few gaps"):
        read_planetoid(planetoid, "cora")


def test_planetoid_that_is_truncated_or_missing(planetoid):
    file = planetoid / "ind.cora.allx"
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(DataError, match="ind.cora.allx: is truncated"):
        read_planetoid(planetoid, "cora")
    file.unlink()
    with pytest.raises(DataError, match="holds no ind.cora.allx"):
        read_planetoid(planetoid, "cora")


# OGB


def write_csv(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(",".join(map(str, row)) + "\n" for row in rows).encode()))


@pytest.fixture(params=["arxiv", "products"])
def ogb(tmp_path, request):
    return unpack_tiny(f"ogbn-{request.param}", tmp_path) / request.param


def test_ogb(ogb):
    data = read_ogb(ogb.rename(ogb.with_name("ogbn_small")))
    assert is_a_proper_graph(data)
    assert data.name == "ogbn-small"
    assert data.edges.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]
    assert data.x.tolist() == [[0.5, 1], [1, 2], [2, 3], [3, 4]]
    assert (data.train.tolist(), data.validation.tolist(), data.test.tolist()) == ([0, 1], [2], [3])
    assert data.y.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("edge", [(0, 1)], "edge.csv.gz: has 1 rows; the folder declares 4"),
        ("edge", [(0, 4)] * 4, "numbers should be from 0 to 3"),
        ("edge", [(0, 1, 2)] * 4, "has 3 columns; it should have 2"),
        ("edge", [("a", "b")] * 4, "not a table of numbers"),
        ("edge", [], "holds no rows"),
        ("node-feat", [(1, 2)] * 3, "has 3 rows; the folder declares 4"),
        ("node-feat", [(1, "nan")] * 4, "not finite"),
        ("node-label", [(-1,)] * 4, "has the label -1"),
    ],
)
def test_wrong_ogb(ogb, name, rows, message):
    write_csv(ogb / "raw" / f"{name}.csv.gz", rows)
    with pytest.raises(DataError, match=message):
        read_ogb(ogb)


def test_damaged_ogb(ogb):
    file = ogb / "raw" / "node-feat.csv.gz"
    for content in (file.read_bytes()[:-9], b"hello", b""):
        file.write_bytes(content)
        with pytest.raises(DataError, match="node-feat.csv.gz: (the gzip file is trunc|holds no rows|cannot be read)"):
            read_ogb(ogb)
