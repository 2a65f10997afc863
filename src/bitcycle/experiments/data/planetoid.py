"""Cora, CiteSeer and PubMed in the raw files of Planetoid, with its standard split.

x, y: the training nodes; allx, ally: all nodes but those of the test; tx, ty: the test nodes, in the order of
test.index, which holds their numbers; graph: the neighbours of every node. The test nodes fill the numbers behind allx.
CiteSeer has gaps among them: nodes without features and class.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.files import existing_folder, lines_of, required
from bitcycle.experiments.data.graph_data import GraphData, undirected
from bitcycle.experiments.data.unpickling import load_arrays

_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
_VALIDATION = 500


def read_planetoid(folder: str | Path, name: str) -> GraphData:
    """Read ind.NAME.* from the folder or its `raw`: 20 nodes a class for training, 500 for validation, 1,000 for test.

    The features of a node are divided by their sum. A node in a gap of CiteSeer has no features and class 0, and is in
    none of the parts. ``read_planetoid("planetoid", "cora")`` has 2,708 nodes and 10,556 edges.
    """
    name = name.lower()
    path = existing_folder(folder, f"Planetoid files such as ind.{name}.x")
    place = path / "raw" if (path / "raw" / f"ind.{name}.x").is_file() else path
    file = {part: required(place, f"ind.{name}.{part}") for part in _PARTS}
    features = {part: _features(file[part]) for part in ("x", "tx", "allx")}
    labels = {part: _labels(file[part]) for part in ("y", "ty", "ally")}
    for of_x, of_y in (("x", "y"), ("tx", "ty"), ("allx", "ally")):
        if features[of_x].shape[0] != len(labels[of_y]):
            raise DataError(
                f"{file[of_y]}: has {len(labels[of_y])} rows; it should have {features[of_x].shape[0]}, as {of_x} has"
            )
    known, classes = features["allx"].shape[0], labels["ally"].shape[1]
    test = _test_index(file["test.index"], known, features["tx"].shape[0])
    nodes = int(test.max()) + 1
    if len({part.shape[1] for part in features.values()}) > 1 or len({part.shape[1] for part in labels.values()}) > 1:
        raise DataError(f"{place}: the parts of {name} differ in features or classes; they should be of one data set")
    x = np.zeros((nodes, features["allx"].shape[1]), np.float32)
    x[:known], x[test] = features["allx"].toarray(), features["tx"].toarray()
    sums = x.sum(1, keepdims=True)
    y = np.zeros(nodes, np.int64)
    y[:known], y[test] = labels["ally"].argmax(1), labels["ty"].argmax(1)
    trained = len(labels["y"])
    if trained + _VALIDATION > known:
        raise DataError(f"{file['allx']}: has {known} rows; it should have {trained + _VALIDATION} or more")
    return GraphData(
        name,
        torch.from_numpy(np.divide(x, sums, out=x, where=sums != 0)),
        _edges(file["graph"], nodes),
        torch.from_numpy(y),
        torch.arange(trained),
        torch.arange(trained, trained + _VALIDATION),
        torch.from_numpy(np.sort(test)),
        classes,
    )


def _features(path: Path) -> Any:
    matrix = load_arrays(path)
    if not hasattr(matrix, "toarray"):
        raise DataError(f"{path}: holds a {type(matrix).__name__}; it should hold a sparse matrix of features")
    if not np.isfinite(matrix.data).all():
        raise DataError(f"{path}: has features that are not finite; they should be numbers")
    return matrix


def _labels(path: Path) -> NDArray[Any]:
    table = load_arrays(path)
    if not isinstance(table, np.ndarray) or table.ndim != 2 or not ((table == 0) | (table == 1)).all():
        raise DataError(f"{path}: should hold an array of zeros and ones, a column for each class")
    if (table.sum(1) > 1).any():
        raise DataError(f"{path}: has a node of two classes; each row should have one 1")
    return table


def _test_index(path: Path, known: int, rows: int) -> NDArray[np.int64]:
    try:
        test = np.array([int(line) for line in lines_of(path)], dtype=np.int64)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path}: has a line that is no number ({error}); each should be the number of a node"
        ) from None
    if len(test) != rows or len(np.unique(test)) != rows or rows == 0 or test.min() < known:
        raise DataError(
            f"{path}: should hold {rows} different numbers of nodes, as tx has rows, all of {known} or more, "
            "as allx has the nodes before them"
        )
    if test.max() >= known + 2 * rows:  # CiteSeer's gaps are few; a number far off would ask for a vast empty graph
        raise DataError(f"{path}: has the number {test.max()}; numbers should follow on {known} with few gaps")
    return test


def _edges(path: Path, nodes: int) -> torch.Tensor:
    graph = load_arrays(path)
    if not isinstance(graph, dict) or not all(isinstance(around, list) for around in graph.values()):
        raise DataError(f"{path}: should hold a dictionary from a node to the list of its neighbours")
    pairs = [(node, other) for node, around in graph.items() for other in around]
    if not pairs or not all(type(end) is int and 0 <= end < nodes for pair in pairs for end in pair):
        raise DataError(f"{path}: has an edge to no node; its numbers should be from 0 to {nodes - 1}")
    sources, targets = np.array(pairs, dtype=np.int64).T
    return undirected(sources, targets, nodes)
