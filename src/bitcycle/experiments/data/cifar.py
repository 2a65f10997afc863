"""CIFAR-10 and CIFAR-100 in their python batches: pickles of rows of 3072 bytes, the red plane first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.files import required
from bitcycle.experiments.data.image_data import ArrayImages, ImageData, hold_out
from bitcycle.experiments.data.unpickling import load_arrays


@dataclass(frozen=True)
class _Layout:
    name: str
    folder: str
    train: tuple[str, ...]
    test: str
    meta: str
    labels: str
    names: str
    classes: int


_TEN = _Layout(
    "cifar-10",
    "cifar-10-batches-py",
    tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test_batch",
    "batches.meta",
    "labels",
    "label_names",
    10,
)
_HUNDRED = _Layout("cifar-100", "cifar-100-python", ("train",), "test", "meta", "fine_labels", "fine_label_names", 100)


def cifar_folder(folder: Path) -> tuple[Path, _Layout] | None:
    """Where in the folder the batches are, and of which CIFAR; None where there are none."""
    for layout in (_TEN, _HUNDRED):
        for place in (folder, folder / layout.folder):
            if (place / layout.meta).is_file() or all((place / name).is_file() for name in layout.train):
                return place, layout
    return None


def read_cifar(folder: Path, layout: _Layout) -> ImageData:
    """CIFAR-10, or CIFAR-100 with its fine labels."""
    meta = required(folder, layout.meta)
    names = _entry(meta, _dictionary(meta), layout.names)
    if not isinstance(names, list) or len(names) != layout.classes:
        raise DataError(f"{meta}: {layout.names!r} should be a list of {layout.classes} names")
    classes = tuple(name.decode("latin1") if isinstance(name, bytes) else str(name) for name in names)
    train = _joined([_batch(required(folder, name), layout) for name in layout.train])
    test = _batch(required(folder, layout.test), layout)
    return ImageData(layout.name, classes, 3, 32, *hold_out(train), test)


def _batch(path: Path, layout: _Layout) -> ArrayImages:
    content = _dictionary(path)
    data, labels = _entry(path, content, "data"), _entry(path, content, layout.labels)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3 * 32 * 32:
        raise DataError(f"{path}: 'data' should be an array of bytes with rows of 3072, one for each image")
    if not isinstance(labels, list) or len(labels) != len(data) or len(data) < 2:
        raise DataError(f"{path}: {layout.labels!r} should be a list with a label for each of the {len(data)} images")
    wrong = [label for label in labels if type(label) is not int or not 0 <= label < layout.classes]
    if wrong:
        raise DataError(f"{path}: has the label {wrong[0]!r}; labels should be from 0 to {layout.classes - 1}")
    return ArrayImages(torch.from_numpy(data).reshape(-1, 3, 32, 32), torch.tensor(labels, dtype=torch.int64))


def _joined(batches: Sequence[ArrayImages]) -> ArrayImages:
    return ArrayImages(torch.cat([b.pixels for b in batches]), torch.cat([b.labels for b in batches]))


def _dictionary(path: Path) -> dict[Any, Any]:
    content = load_arrays(path)
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds a {type(content).__name__}; a CIFAR file should hold a dictionary")
    return content


def _entry(path: Path, content: dict[Any, Any], key: str) -> Any:
    """An entry; the keys are text in the official files, and bytes in files that python 3 packed again."""
    for spelling in (key, key.encode()):
        if spelling in content:
            return content[spelling]
    raise DataError(f"{path}: has no entry {key!r}; a CIFAR file should have one")
