"""Graph data sets: the embedded one, a nearest-neighbour graph of scikit-learn's digits, and readers of official ones.

Official data are Planetoid (Cora, CiteSeer, PubMed) and OGB (ogbn-arxiv, ogbn-products).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitcycle.lab.data.files import DataError, existing_folder, lines_of, open_data, read_digits, required_file
from bitcycle.lab.data.splits import Splits
from bitcycle.lab.data.unpickling import load_arrays

_NOISE = 1.0
_NEIGHBOURS = 8
_TRAINING_PER_CLASS, _VALIDATION, _TEST = 20, 300, 1000
_PLANETOID_NAMES = ("cora", "citeseer", "pubmed")
_PLANETOID_FILES = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
_PLANETOID_VALIDATION = 500
MAX_FEATURE_VALUES = 200_000_000
"""Nodes times features of a graph whose file is sparse: PubMed has 10 million, and Reddit 140 million."""
_OGB_EXPECTED = "OGB's raw/edge.csv.gz, raw/node-feat.csv.gz, raw/node-label.csv.gz and split/*/train.csv.gz"


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


def digits_graph() -> GraphData:
    """Return the nearest-neighbour graph of scikit-learn's 1,797 digits, with 20 training nodes per class.

    The features are the 64 pixels in [0, 1] plus Gaussian noise of standard deviation 1. The edges come from the clean
    pixels, so that averaging over neighbours removes noise.

    >>> data = digits_graph()
    >>> data.x.shape, len(data.train), len(data.validation), len(data.test)
    (torch.Size([1797, 64]), 200, 300, 1000)
    """
    images, classes = read_digits()
    pixels, labels = images.reshape(len(images), -1), torch.from_numpy(classes)
    noise = _NOISE * np.random.default_rng(0).standard_normal(pixels.shape)
    x = torch.from_numpy(pixels / 16 + noise).float()
    sources = np.repeat(np.arange(len(labels)), _NEIGHBOURS)
    edges = undirected(sources, nearest_points(pixels, _NEIGHBOURS).ravel(), len(labels))
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


def read_graph(path: Path) -> GraphData:
    """Read the graph at a path.

    Args:
        path: An OGB folder, a folder with the raw Planetoid files ``ind.NAME.*`` of one data set, or FOLDER/NAME, where
            FOLDER has the Planetoid files of several data sets.

    Raises:
        DataError: If the path has none of these, or a file is missing or damaged.
    """
    folder, name = (path, "") if path.is_dir() else (path.parent, path.name)
    names = sorted({file.name.split(".")[1] for file in folder.glob("ind.*.*")})
    if name in _PLANETOID_NAMES or name in names:
        return read_planetoid(folder, name)
    if len(names) == 1 and not name:
        return read_planetoid(folder, names[0])
    if names:
        raise DataError(
            f"{folder} holds the Planetoid data sets {', '.join(names)}: name one, as in {folder / names[0]}"
        )
    return read_ogb(path)


def read_planetoid(folder: str | Path, name: str) -> GraphData:
    """Read Cora, CiteSeer or PubMed from the raw files of Planetoid, with its standard split.

    The split has 20 training nodes per class, 500 validation nodes and 1,000 test nodes. The features of a node are
    divided by their sum. ``read_planetoid("planetoid", "cora")`` has 2,708 nodes and 10,556 edges.

    The files ``x`` and ``y`` are the training nodes, ``allx`` and ``ally`` all nodes except the test nodes, ``tx`` and
    ``ty`` the test nodes in the order of ``test.index``, which has their numbers, and ``graph`` the neighbours of every
    node. The test nodes follow the nodes of ``allx``. CiteSeer has gaps among them: these nodes have no features and
    class 0, and belong to no split.

    Args:
        folder: The folder with the files ``ind.NAME.*``, or with ``raw/ind.NAME.*``.
        name: The name of the data set.

    Raises:
        DataError: If a file is missing or damaged.
    """
    name = name.lower()
    path = existing_folder(folder, f"Planetoid files such as ind.{name}.x")
    raw = path / "raw" if (path / "raw" / f"ind.{name}.x").is_file() else path
    file = {part: required_file(raw, f"ind.{name}.{part}") for part in _PLANETOID_FILES}
    features = {part: _planetoid_features(file[part]) for part in ("x", "tx", "allx")}
    labels = {part: _planetoid_labels(file[part]) for part in ("y", "ty", "ally")}
    (known, width), classes = features["allx"].shape, labels["ally"].shape[1]
    pairs = (("x", "y"), ("tx", "ty"), ("allx", "ally"))
    if any((features[a].shape, labels[b].shape[1]) != ((len(labels[b]), width), classes) for a, b in pairs):
        raise DataError(
            f"{raw}: the files of {name} differ in rows, features or classes; they should be of one data set"
        )
    test = _test_index(file["test.index"], known, features["tx"].shape[0])
    nodes = int(test.max()) + 1
    if nodes * width > MAX_FEATURE_VALUES:
        raise DataError(
            f"{file['allx']}: a table of {nodes} x {width} exceeds the limit of "
            f"{MAX_FEATURE_VALUES:,} values; it should be like an official data file"
        )
    x = np.zeros((nodes, width), np.float32)
    x[:known], x[test] = features["allx"].toarray(), features["tx"].toarray()
    sums = x.sum(1, keepdims=True)
    y = np.zeros(nodes, np.int64)
    y[:known], y[test] = labels["ally"].argmax(1), labels["ty"].argmax(1)
    trained = len(labels["y"])
    if trained + _PLANETOID_VALIDATION > known:
        raise DataError(f"{file['allx']}: has {known} rows; it should have {trained + _PLANETOID_VALIDATION} or more")
    return GraphData(
        name,
        torch.from_numpy(np.divide(x, sums, out=x, where=sums != 0)),
        _planetoid_edges(file["graph"], nodes),
        torch.from_numpy(y),
        torch.arange(trained),
        torch.arange(trained, trained + _PLANETOID_VALIDATION),
        torch.from_numpy(np.sort(test)),
        classes,
    )


def _planetoid_features(path: Path) -> Any:
    matrix = load_arrays(path)
    if not hasattr(matrix, "toarray") or "data" not in vars(matrix):
        raise DataError(f"{path}: holds a {type(matrix).__name__}; it should hold a sparse matrix of features")
    if not np.isfinite(matrix.data).all():
        raise DataError(f"{path}: has features that are not finite; all should be finite numbers")
    return matrix


def _planetoid_labels(path: Path) -> NDArray[Any]:
    table = load_arrays(path)
    if not isinstance(table, np.ndarray) or table.ndim != 2 or not ((table == 0) | (table == 1)).all():
        raise DataError(f"{path}: should hold an array of zeros and ones, one column per class")
    if (table.sum(1) > 1).any():
        raise DataError(f"{path}: has a node of two classes; each row should have a single 1")
    return table


def _test_index(path: Path, known: int, rows: int) -> NDArray[np.int64]:
    try:
        test = np.array([int(line) for line in lines_of(path)], dtype=np.int64)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: has a line that is not a number ({error}); each should be a node number") from None
    if len(test) != rows or len(np.unique(test)) != rows or rows == 0 or test.min() < known:
        raise DataError(
            f"{path}: should hold {rows} different node numbers, one per row of tx, all of {known} or more, "
            "the number of rows of allx"
        )
    if test.max() >= known + 2 * rows:  # CiteSeer has few gaps; a very large number would create a huge empty graph
        raise DataError(f"{path}: has the number {test.max()}; numbers should start at {known} and have few gaps")
    return test


def _planetoid_edges(path: Path, nodes: int) -> torch.Tensor:
    graph = load_arrays(path)
    if not isinstance(graph, dict) or not all(isinstance(neighbours, list) for neighbours in graph.values()):
        raise DataError(f"{path}: should hold a dictionary from each node to the list of its neighbours")
    lengths = [len(neighbours) for neighbours in graph.values()]
    edges = sum(lengths)
    if not edges or not all(
        type(end) is int and 0 <= end < nodes for end in chain(graph, chain.from_iterable(graph.values()))
    ):
        raise DataError(f"{path}: has an edge to an unknown node; node numbers should be from 0 to {nodes - 1}")
    sources = np.repeat(np.fromiter(graph, np.int64, len(graph)), lengths)
    targets = np.fromiter(chain.from_iterable(graph.values()), np.int64, edges)
    return undirected(sources, targets, nodes)


def read_ogb(folder: str | Path) -> GraphData:
    """Read ogbn-arxiv or ogbn-products from the compressed csv files of OGB, with OGB's split.

    The edges are made undirected, as is usual for both. ``read_ogb("dataset/ogbn_arxiv").classes`` is 40.

    Raises:
        DataError: If a file is missing or damaged.
    """
    path = existing_folder(folder, _OGB_EXPECTED)
    raw, split = path / "raw", _ogb_split_folder(path)
    nodes, edge_count = (
        int(_csv_table(raw, f"num-{name}-list.csv.gz", np.int64, 1)[0, 0]) for name in ("node", "edge")
    )
    x = _csv_table(raw, "node-feat.csv.gz", np.float32, rows=nodes)
    y = _csv_table(raw, "node-label.csv.gz", np.int64, 1, nodes)[:, 0]
    edges = _csv_table(raw, "edge.csv.gz", np.int64, 2, edge_count)
    if edges.min() < 0 or edges.max() >= nodes:
        raise DataError(
            f"{raw / 'edge.csv.gz'}: has an edge to an unknown node; node numbers should be from 0 to {nodes - 1}"
        )
    if y.min() < 0:
        raise DataError(f"{raw / 'node-label.csv.gz'}: has the label {y.min()}; labels should be 0 or more")
    splits = [_csv_table(split, f"{name}.csv.gz", np.int64, 1)[:, 0] for name in ("train", "valid", "test")]
    together = np.concatenate(splits)
    if together.min() < 0 or together.max() >= nodes or len(np.unique(together)) != len(together):
        raise DataError(f"{split}: the splits should have different nodes, with numbers from 0 to {nodes - 1}")
    train, validation, test = (torch.from_numpy(np.sort(rows)) for rows in splits)
    return GraphData(
        path.absolute().name.replace("_", "-"),
        torch.from_numpy(x),
        undirected(edges[:, 0], edges[:, 1], nodes),
        torch.from_numpy(y.copy()),
        train,
        validation,
        test,
        int(y.max()) + 1,
    )


def _ogb_split_folder(path: Path) -> Path:
    for name in ("time", "sales_ranking"):
        if (path / "split" / name).is_dir():
            return path / "split" / name
    raise DataError(f"{path}: has no split/time or split/sales_ranking; it should hold {_OGB_EXPECTED}")


def _csv_table(folder: Path, name: str, kind: Any, columns: int | None = None, rows: int | None = None) -> NDArray[Any]:
    """Read the table of a compressed csv file, which must not be empty and must be finite."""
    path = required_file(folder, name)
    try:
        with open_data(path) as content, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a file without rows, which is an error below
            table = np.loadtxt(content, dtype=kind, delimiter=",", ndmin=2, comments=None, encoding="ascii")
    except DataError:
        raise
    except ValueError as error:
        raise DataError(
            f"{path}: is not a table of numbers ({error}); it should be a gzip file of numbers separated by commas"
        ) from None
    if not table.size:
        raise DataError(f"{path}: holds no rows; it should hold numbers separated by commas")
    if rows is not None and len(table) != rows:
        raise DataError(f"{path}: has {len(table)} rows; the folder declares {rows}, so it is truncated")
    if columns is not None and table.shape[1] != columns:
        raise DataError(f"{path}: has {table.shape[1]} columns; it should have {columns}")
    if not np.isfinite(table).all():
        raise DataError(f"{path}: has numbers that are not finite; all should be finite")
    return table
