"""The idx files of MNIST and its family, compressed or not.

An idx file is two zero bytes, the code of the number type (8: unsigned bytes), the number of dimensions, the dimensions
as big-endian 32-bit integers, and the numbers.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.files import first_existing, read_bytes, required
from bitcycle.experiments.data.image_data import ArrayImages, ImageData, hold_out

_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_CLASSES = 10


def idx_folder(folder: Path) -> Path | None:
    """Where in the folder the idx files are: in itself, or in the `raw` that torchvision makes."""
    places = (folder, folder / "raw")
    return next((place for place in places if first_existing(place, _names("train-images", 3))), None)


def read_idx(folder: Path) -> ImageData:
    """A data set of the MNIST family: ten classes, grey images."""
    train, test = _split(folder, "train"), _split(folder, "t10k")
    shape = train.pixels.shape[1:]
    if test.pixels.shape[1:] != shape or shape[1] != shape[2]:
        raise DataError(
            f"{folder}: has training images of {tuple(shape[1:])} and test images of {tuple(test.pixels.shape[2:])} "
            "pixels; they should be square and alike"
        )
    named = " ".join(folder.absolute().parts[-3:]).lower()  # the files themselves do not say what they show
    classes = _CLOTHES if "fashion" in named else tuple(str(digit) for digit in range(_CLASSES))
    return ImageData(folder.absolute().name, classes, 1, shape[1], *hold_out(train), test)


def read_idx_file(path: Path, dimensions: int) -> Tensor:
    """The numbers of one idx file of unsigned bytes, as a uint8 tensor of the given number of dimensions."""
    content = read_bytes(path)
    magic, start = bytes((0, 0, 8, dimensions)), 4 + 4 * dimensions
    if content[:4] != magic:
        raise DataError(
            f"{path}: starts with the bytes {content[:4].hex()}; "
            f"an idx file of unsigned bytes in {dimensions} dimensions starts with {magic.hex()}"
        )
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{path}: has {max(0, len(content) - start)} bytes of data; its header of {' x '.join(map(str, shape))} "
            f"asks for {math.prod(shape)}, so it is truncated or damaged and should be copied or downloaded again"
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy())


def _names(part: str, dimensions: int) -> tuple[str, ...]:
    stems = (f"{part}-idx{dimensions}-ubyte", f"{part}.idx{dimensions}-ubyte")
    return tuple(stem + suffix for stem in stems for suffix in ("", ".gz"))


def _split(folder: Path, part: str) -> ArrayImages:
    of_images, of_labels = (
        required(folder, *_names(f"{part}-images", 3)),
        required(folder, *_names(f"{part}-labels", 1)),
    )
    pixels, labels = read_idx_file(of_images, 3), read_idx_file(of_labels, 1)
    if len(pixels) != len(labels):
        raise DataError(
            f"{of_labels}: has {len(labels)} labels for {len(pixels)} images; it should have one for each image"
        )
    if len(labels) < 2:
        raise DataError(f"{of_images}: has {len(labels)} images; it should have at least two")
    if labels.max() >= _CLASSES:
        raise DataError(f"{of_labels}: has the label {int(labels.max())}; labels should be from 0 to {_CLASSES - 1}")
    return ArrayImages(pixels.unsqueeze(1), labels.long())
