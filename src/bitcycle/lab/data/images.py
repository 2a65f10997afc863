"""Image data sets in memory or in files, and the embedded one: scikit-learn's digits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from bitcycle._support.extras import need
from bitcycle.lab.data.files import open_image, read_digits
from bitcycle.lab.data.splits import Splits


class ImageSplit(Protocol):
    """One split of an image data set."""

    @property
    def labels(self) -> Tensor:
        """The class of each image, int64."""

    def __len__(self) -> int: ...

    def images(self, rows: Tensor) -> Tensor:
        """Return images by row number, as float32 (n, channels, height, width) in [0, 1]."""

    def subset(self, rows: Tensor) -> ImageSplit:
        """Return the split that consists of these rows, in this order."""


@dataclass(frozen=True)
class ArrayImages:
    """Images in memory, as uint8 (n, channels, height, width) from 0 to ``peak``.

    >>> split = ArrayImages(torch.full((3, 1, 2, 2), 255, dtype=torch.uint8), torch.tensor([0, 1, 1]))
    >>> len(split), split.images(torch.tensor([2])).shape, split.images(torch.tensor([2])).max()
    (3, torch.Size([1, 1, 2, 2]), tensor(1.))
    """

    pixels: Tensor
    labels: Tensor
    peak: int = 255

    def __len__(self) -> int:
        return len(self.labels)

    def images(self, rows: Tensor) -> Tensor:
        return self.pixels[rows].float() / self.peak

    def subset(self, rows: Tensor) -> ArrayImages:
        return ArrayImages(self.pixels[rows], self.labels[rows], self.peak)


@dataclass(frozen=True)
class FileImages:
    """Images in files, decoded on access: the central square in RGB, scaled to ``size`` pixels."""

    files: tuple[Path, ...]
    labels: Tensor
    size: int

    def __len__(self) -> int:
        return len(self.labels)

    def images(self, rows: Tensor) -> Tensor:
        decoded = [_decode(self.files[row], self.size) for row in rows.tolist()]
        return torch.stack(decoded) if decoded else torch.empty(0, 3, self.size, self.size)

    def subset(self, rows: Tensor) -> FileImages:
        return FileImages(tuple(self.files[row] for row in rows.tolist()), self.labels[rows], self.size)


@dataclass(frozen=True)
class ImageData(Splits[ImageSplit]):
    """An image data set with its three splits."""

    name: str
    classes: tuple[str, ...]
    """The names of the classes."""
    channels: int
    size: int
    """Height and width in pixels."""
    train: ImageSplit
    validation: ImageSplit
    test: ImageSplit


def digits() -> ImageData:
    """Return scikit-learn's 1,797 handwritten digits, of 8 x 8 pixels in 17 shades of grey.

    Of every 20 digits of a class, in the order of the file, 12 are for training, 3 for validation and 5 for testing.
    The splits have the same proportions of classes, and no randomness is involved.

    >>> data = digits()
    >>> [len(split) for split in (data.train, data.validation, data.test)], data.channels, data.size
    ([1084, 266, 447], 1, 8)
    """
    images, labels = map(torch.from_numpy, read_digits())
    everything = ArrayImages(images.to(torch.uint8).unsqueeze(1), labels, peak=16)
    # The factor 7 separates neighbours in the file, which often are by the same writer.
    position = _rank_in_class(labels) * 7 % 20
    bounds = ((0, 12), (12, 15), (15, 20))
    splits = (everything.subset(((position >= low) & (position < high)).nonzero().flatten()) for low, high in bounds)
    return ImageData("digits", tuple(str(digit) for digit in range(10)), 1, 8, *splits)


def _rank_in_class(labels: Tensor) -> Tensor:
    """Return how many samples of the same class come before each sample."""
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    return same.tril(-1).sum(1)


def _decode(path: Path, size: int) -> Tensor:
    """Return the central square of an image as (3, size, size)."""
    bilinear = need("PIL.Image", "study", "decoding images").Resampling.BILINEAR
    with open_image(path) as image:
        side = min(image.size)
        left, top = ((length - side) // 2 for length in image.size)
        square = (left, top, left + side, top + side)
        small = image.convert("RGB").resize((size, size), bilinear, box=square)
    return torch.from_numpy(np.array(small)).permute(2, 0, 1).float() / 255
