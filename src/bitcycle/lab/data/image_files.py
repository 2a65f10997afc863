"""Readers of official image data: idx files (MNIST), CIFAR python batches, and ImageNet-style folders."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from bitcycle.lab.data.files import DataError, existing_folder, first_existing, read_bytes, required_file
from bitcycle.lab.data.images import ArrayImages, FileImages, ImageData
from bitcycle.lab.data.splits import hold_out
from bitcycle.lab.data.unpickling import load_arrays

_EXPECTED = (
    "idx files (train-images-idx3-ubyte.gz ...), CIFAR python batches (cifar-10-batches-py, cifar-100-python) "
    "or images in train/<class>/ and val/<class>/"
)


def read_images(folder: str | Path, size: int = 224) -> ImageData:
    """Read a folder of idx files, CIFAR python batches, or images in class folders.

    No format has a validation set of its own: it is the last tenth of a fixed permutation of the training images. In
    class folders, ``val`` is the test set. ``read_images("fashion-mnist")`` has 54,000 / 6,000 / 10,000 images.

    Args:
        folder: The data set, in the layout of its publisher.
        size: Height and width to which images in class folders are scaled.

    Raises:
        DataError: If the folder has none of these formats, or a file is missing or damaged.
    """
    path = existing_folder(folder, _EXPECTED)
    if (idx := _idx_folder(path)) is not None:
        return _read_idx(idx)
    if (cifar := _cifar_folder(path)) is not None:
        return _read_cifar(*cifar)
    if _class_names(path / "train"):
        return _read_class_folders(path, size)
    raise DataError(f"{path}: no images were recognised; it should hold {_EXPECTED}")


S = TypeVar("S", ArrayImages, FileImages)


def _hold_out(images: S) -> tuple[S, S]:
    train, validation = hold_out(len(images))
    return images.subset(train), images.subset(validation)


# idx files: MNIST and Fashion-MNIST

_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_IDX_CLASSES = 10


def _idx_folder(folder: Path) -> Path | None:
    """Return the folder of the idx files: the folder itself, or ``raw``, which torchvision creates."""
    candidates = (folder, folder / "raw")
    return next((path for path in candidates if first_existing(path, _idx_names("train-images", 3))), None)


def _read_idx(folder: Path) -> ImageData:
    """Read a data set of the MNIST family: grey images of ten classes."""
    train, test = _idx_split(folder, "train"), _idx_split(folder, "t10k")
    shape = train.pixels.shape[1:]
    if test.pixels.shape[1:] != shape or shape[1] != shape[2]:
        raise DataError(
            f"{folder}: has training images of {tuple(shape[1:])} and test images of {tuple(test.pixels.shape[2:])} "
            "pixels; they should be square and of the same size"
        )
    path = " ".join(folder.absolute().parts[-3:]).lower()  # the files themselves do not name their classes
    classes = _CLOTHES if "fashion" in path else tuple(str(digit) for digit in range(_IDX_CLASSES))
    return ImageData(folder.absolute().name, classes, 1, shape[1], *_hold_out(train), test)


def read_idx_file(path: Path, dimensions: int) -> Tensor:
    """Read one idx file of unsigned bytes.

    An idx file has two zero bytes, the code of the number type (8 = unsigned bytes), the number of dimensions, the
    dimensions as big-endian 32-bit integers, and the numbers.

    Args:
        path: The file, compressed by gzip if its name ends in ``.gz``.
        dimensions: The number of dimensions that it must have.

    Returns:
        A uint8 tensor.

    Raises:
        DataError: If the file is damaged, or has another type or number of dimensions.
    """
    content = np.frombuffer(read_bytes(path), np.uint8)
    magic, length = bytes((0, 0, 8, dimensions)), 4 + 4 * dimensions
    if content[:4].tobytes() != magic:
        raise DataError(
            f"{path}: starts with the bytes {content[:4].tobytes().hex()}; "
            f"an idx file of unsigned bytes in {dimensions} dimensions starts with {magic.hex()}"
        )
    shape = [int.from_bytes(content[at : at + 4].tobytes(), "big") for at in range(4, length, 4)]
    numbers, size = content[length:], math.prod(shape)
    if len(content) < length or len(numbers) != size:
        raise DataError(
            f"{path}: has {'fewer' if len(numbers) < size else 'more'} bytes of data than the {size} that its "
            f"header of {' x '.join(map(str, shape))} asks for, so the file is truncated or damaged and should be "
            "copied or downloaded again"
        )
    return torch.from_numpy(numbers.reshape(shape).copy())  # a copy is writable


def _idx_names(part: str, dimensions: int) -> tuple[str, ...]:
    stems = (f"{part}-idx{dimensions}-ubyte", f"{part}.idx{dimensions}-ubyte")
    return tuple(stem + suffix for stem in stems for suffix in ("", ".gz"))


def _idx_split(folder: Path, part: str) -> ArrayImages:
    image_file = required_file(folder, *_idx_names(f"{part}-images", 3))
    label_file = required_file(folder, *_idx_names(f"{part}-labels", 1))
    pixels, labels = read_idx_file(image_file, 3), read_idx_file(label_file, 1).long()
    if pixels.numel() == 0:
        height, width = pixels.shape[1:]
        raise DataError(f"{image_file}: has images of {height} x {width} pixels; they should have at least one pixel")
    _check_labels(label_file, labels, len(pixels), _IDX_CLASSES)
    return ArrayImages(pixels.unsqueeze(1), labels)


def _check_labels(path: Path, labels: Tensor, images: int, classes: int) -> None:
    if len(labels) != images or images < 2:
        raise DataError(
            f"{path}: has {len(labels)} labels for {images} images; it should have one per image, and at least two"
        )
    if labels.min() < 0 or labels.max() >= classes:
        wrong = labels[(labels < 0) | (labels >= classes)][0]
        raise DataError(f"{path}: has the label {wrong}; labels should be from 0 to {classes - 1}")


# CIFAR-10 and CIFAR-100


@dataclass(frozen=True)
class _CifarLayout:
    """The names of files and entries."""

    name: str
    folder: str
    train: tuple[str, ...]
    test: str
    meta: str
    labels: str
    names: str
    classes: int


_CIFAR = (
    _CifarLayout(
        "cifar-10",
        "cifar-10-batches-py",
        tuple(f"data_batch_{number}" for number in range(1, 6)),
        "test_batch",
        "batches.meta",
        "labels",
        "label_names",
        10,
    ),
    _CifarLayout("cifar-100", "cifar-100-python", ("train",), "test", "meta", "fine_labels", "fine_label_names", 100),
)


def _cifar_folder(folder: Path) -> tuple[Path, _CifarLayout] | None:
    """Return the folder of the batches and their layout; None if there are no batches."""
    for layout in _CIFAR:
        for path in (folder, folder / layout.folder):
            if (path / layout.meta).is_file() or all((path / name).is_file() for name in layout.train):
                return path, layout
    return None


def _read_cifar(folder: Path, layout: _CifarLayout) -> ImageData:
    """Read CIFAR-10, or CIFAR-100 with its fine labels: pickles with rows of 3072 bytes, the red plane first."""
    meta = required_file(folder, layout.meta)
    (names,) = _cifar_entries(meta, layout.names)
    if not isinstance(names, list) or len(names) != layout.classes:
        raise DataError(f"{meta}: {layout.names!r} should be a list of {layout.classes} names")
    classes = tuple(map(_as_text, names))
    batches = [_cifar_batch(required_file(folder, name), layout) for name in layout.train]
    train = ArrayImages(torch.cat([batch.pixels for batch in batches]), torch.cat([batch.labels for batch in batches]))
    test = _cifar_batch(required_file(folder, layout.test), layout)
    return ImageData(layout.name, classes, 3, 32, *_hold_out(train), test)


def _cifar_batch(path: Path, layout: _CifarLayout) -> ArrayImages:
    data, labels = _cifar_entries(path, "data", layout.labels)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3 * 32 * 32:
        raise DataError(f"{path}: 'data' should be an array of bytes with rows of 3072, one row per image")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise DataError(f"{path}: {layout.labels!r} should be a list of {len(data)} labels, one per image")
    numbers = torch.tensor(labels, dtype=torch.int64)
    _check_labels(path, numbers, len(data), layout.classes)
    return ArrayImages(torch.from_numpy(data).reshape(-1, 3, 32, 32), numbers)


def _cifar_entries(path: Path, *names: str) -> list[Any]:
    """Return entries of a file. Names are text in the official files, and bytes in files that Python 3 has repacked."""
    content = load_arrays(path)
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds a {type(content).__name__}; a CIFAR file should hold a dictionary")
    entries = {_as_text(key): value for key, value in content.items()}
    for name in names:
        if name not in entries:
            raise DataError(f"{path}: has no entry {name!r}; a CIFAR file should have one")
    return [entries[name] for name in names]


def _as_text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


# Images in folders of classes

_IMAGE_SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm"))


def _read_class_folders(folder: Path, size: int) -> ImageData:
    """Read train/CLASS/*.jpg, with ``val`` or else ``test`` as the test set; classes are in alphabetical order."""
    if size < 1:
        raise ValueError(f"size must be 1 pixel or more, got {size}")
    classes = _class_names(folder / "train")
    test = next((folder / name for name in ("val", "test") if (folder / name).is_dir()), None)
    if test is None:
        raise DataError(f"{folder}: has only train/; it should also have val/ or test/ with the same classes")
    unknown = sorted(set(_class_names(test)) - set(classes))
    if unknown:
        raise DataError(
            f"{test}: has the class {unknown[0]!r}, which train/ does not have; both should have the same classes"
        )
    train = _class_split(folder / "train", classes, size)
    missing = sorted(set(range(len(classes))) - set(train.labels.tolist()))
    if missing:
        raise DataError(f"{folder / 'train' / classes[missing[0]]}: holds no image; it should hold files such as *.jpg")
    if len(train) < 2:
        raise DataError(f"{folder / 'train'}: holds one image; it should hold at least two")
    return ImageData(folder.absolute().name, classes, 3, size, *_hold_out(train), _class_split(test, classes, size))


def _class_names(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        return ()
    return tuple(sorted(child.name for child in folder.iterdir() if child.is_dir() and not child.name.startswith(".")))


def _class_split(folder: Path, classes: tuple[str, ...], size: int) -> FileImages:
    files = [
        (file, label)
        for label, name in enumerate(classes)
        for file in sorted((folder / name).rglob("*"))
        if file.suffix.lower() in _IMAGE_SUFFIXES and not file.name.startswith(".") and file.is_file()
    ]
    if not files:
        raise DataError(f"{folder}: holds no image; it should hold files such as {classes[0]}/*.jpg")
    labels = torch.tensor([label for _, label in files], dtype=torch.int64)
    return FileImages(tuple(file for file, _ in files), labels, size)
