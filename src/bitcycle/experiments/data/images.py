"""Image data: scikit-learn's digits, and the official formats from a folder."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from bitcycle._support.extras import need
from bitcycle.experiments.data.cifar import cifar_folder, read_cifar
from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.files import existing_folder
from bitcycle.experiments.data.idx import idx_folder, read_idx
from bitcycle.experiments.data.image_data import ArrayImages, FileImages, ImageData, ImageSplit
from bitcycle.experiments.data.image_folder import is_image_folder, read_image_folder

__all__ = ["ArrayImages", "FileImages", "ImageData", "ImageSplit", "digits", "read_images"]

_HOLDS = (
    "idx files (train-images-idx3-ubyte.gz ...), CIFAR python batches (cifar-10-batches-py, cifar-100-python) "
    "or images in train/<class>/ and val/<class>/"
)


def digits() -> ImageData:
    """scikit-learn's 1,797 handwritten digits, 8 x 8 pixels, 17 shades of grey.

    Of every 20 digits of a class, in the file's order, 12 are for training, 3 for validation and 5 for testing: all
    classes are alike in all parts, and no random number has a say.

    >>> data = digits()
    >>> [len(part) for part in (data.train, data.validation, data.test)], data.channels, data.size
    ([1084, 266, 447], 1, 8)
    """
    bunch = need("sklearn.datasets", "study", "the digits data").load_digits()
    labels = torch.from_numpy(bunch.target).long()
    everything = ArrayImages(torch.from_numpy(bunch.images).to(torch.uint8).unsqueeze(1), labels, peak=16)
    place = _place_in_class(labels) * 7 % 20  # times 7: neighbours in the file, often of one hand, part ways
    bounds = ((0, 12), (12, 15), (15, 20))
    parts = (everything.part(((place >= low) & (place < high)).nonzero().flatten()) for low, high in bounds)
    return ImageData("digits", tuple(str(digit) for digit in range(10)), 1, 8, *parts)


def read_images(folder: str | Path, size: int = 224) -> ImageData:
    """Read a folder of idx files, CIFAR python batches, or images in class folders (then scaled to `size`).

    ``read_images("fashion-mnist")`` has 54,000 / 6,000 / 10,000 images: where a data set has no validation part of its
    own, validation is the last tenth of a fixed permutation of the training part. In image folders `val` is the test.
    """
    path = existing_folder(folder, _HOLDS)
    if (place := idx_folder(path)) is not None:
        return read_idx(place)
    if (found := cifar_folder(path)) is not None:
        return read_cifar(*found)
    if is_image_folder(path):
        return read_image_folder(path, size)
    raise DataError(f"{path}: no images were recognised; it should hold {_HOLDS}")


def _place_in_class(labels: Tensor) -> Tensor:
    """How many of the same class come before each."""
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    return same.tril(-1).sum(1)
