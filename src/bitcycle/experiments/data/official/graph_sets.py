"""The official graphs, for the classification of nodes."""

from __future__ import annotations

from bitcycle.experiments.data.official.entry import Official, RemoteFile

_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
_OGB = "https://snap.stanford.edu/ogb/data/nodeproppred"
_NOBODY = "neither the publisher nor a library of data sets states one"


def _planetoid(name: str, *sizes: int) -> Official:
    parts = zip(_PARTS, sizes, strict=True)
    return Official(
        name,
        "graph",
        tuple(RemoteFile(f"{_PLANETOID}/ind.{name}.{part}", size) for part, size in parts),
        "MIT, as its repository states",
        _NOBODY,
        holds=f"ind.{name}.x",
        reads=name,  # there is no such folder: the reader takes FOLDER/cora for the files FOLDER/ind.cora.*
    )


def _ogb(name: str, size: int, licence: str) -> Official:
    archive = RemoteFile(f"{_OGB}/{name}.zip", size, take=(f"{name}/*",), drop=1)
    return Official(f"ogbn-{name}", "graph", (archive,), licence, _NOBODY, holds="raw/edge.csv.gz")


ENTRIES = (
    _planetoid("cora", 22_119, 4_054, 148_025, 28_135, 257_305, 47_959, 59_847, 5_000),
    _planetoid("citeseer", 31_087, 3_014, 260_321, 24_135, 595_021, 55_623, 61_987, 5_000),
    _planetoid("pubmed", 23_172, 854, 405_505, 12_135, 7_578_385, 224_739, 471_808, 6_000),
    _ogb("arxiv", 83_058_288, "ODC-BY 1.0, as OGB states it"),
    _ogb("products", 1_480_993_786, "Amazon's licence for its data on products, as OGB states it"),
)
