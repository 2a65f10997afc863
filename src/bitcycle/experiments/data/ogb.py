"""ogbn-arxiv and ogbn-products in the folders that OGB unpacks: csv files, compressed."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.files import existing_folder, required
from bitcycle.experiments.data.graph_data import GraphData, undirected

_HOLDS = "OGB's raw/edge.csv.gz, raw/node-feat.csv.gz, raw/node-label.csv.gz and split/*/train.csv.gz"


def read_ogb(folder: str | Path) -> GraphData:
    """Read ogbn-arxiv or ogbn-products as OGB lays them out, with OGB's split (by time, or by sales ranking).

    The edges are made undirected, as is usual for both. ``read_ogb("dataset/ogbn_arxiv").classes`` is 40.
    """
    path = existing_folder(folder, _HOLDS)
    raw, split = path / "raw", _split_folder(path)
    nodes = int(_numbers(required(raw, "num-node-list.csv.gz"), np.int64, 1)[0, 0])
    x = _numbers(required(raw, "node-feat.csv.gz"), np.float32)
    y = _column(required(raw, "node-label.csv.gz"))
    edges = _numbers(required(raw, "edge.csv.gz"), np.int64, 2)
    for file, counted, declared in (
        ("node-feat.csv.gz", len(x), nodes),
        ("node-label.csv.gz", len(y), nodes),
        ("edge.csv.gz", len(edges), int(_numbers(required(raw, "num-edge-list.csv.gz"), np.int64, 1)[0, 0])),
    ):
        if counted != declared:
            raise DataError(f"{raw / file}: has {counted} rows; the folder declares {declared}, so it is truncated")
    if edges.min() < 0 or edges.max() >= nodes:
        raise DataError(f"{raw / 'edge.csv.gz'}: has an edge to no node; its numbers should be from 0 to {nodes - 1}")
    if y.min() < 0:
        raise DataError(f"{raw / 'node-label.csv.gz'}: has the label {y.min()}; labels should be 0 or more")
    parts = [_column(required(split, f"{part}.csv.gz")) for part in ("train", "valid", "test")]
    together = np.concatenate(parts)
    if together.min() < 0 or together.max() >= nodes or len(np.unique(together)) != len(together):
        raise DataError(f"{split}: the parts should be different nodes with numbers from 0 to {nodes - 1}")
    train, validation, test = (torch.from_numpy(np.sort(part)) for part in parts)
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


def _split_folder(path: Path) -> Path:
    for name in ("time", "sales_ranking"):
        if (path / "split" / name).is_dir():
            return path / "split" / name
    raise DataError(f"{path}: has no split/time or split/sales_ranking; it should hold {_HOLDS}")


def _column(path: Path) -> NDArray[np.int64]:
    return _numbers(path, np.int64, 1)[:, 0]


def _numbers(path: Path, kind: Any, columns: int | None = None) -> NDArray[Any]:
    """The table of numbers in a compressed csv file; never empty, always finite."""
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            if not file.read(1):
                raise DataError(f"{path}: holds no rows; it should hold numbers between commas")
            file.seek(0)
            table = np.loadtxt(file, dtype=kind, delimiter=",", ndmin=2, comments=None)
    except DataError:
        raise
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(
            f"{path}: is truncated or no table of numbers ({error}); it should be a gzip file of numbers between commas"
        ) from None
    if columns is not None and table.shape[1] != columns:
        raise DataError(f"{path}: has {table.shape[1]} columns; it should have {columns}")
    if not np.isfinite(table).all():
        raise DataError(f"{path}: has numbers that are not finite; they should all be")
    return table
