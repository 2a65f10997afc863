"""What an image data set is: labelled images in three parts, in memory or decoded from files on demand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from bitcycle._support.extras import need
from bitcycle.experiments.data.errors import DataError


class ImageSplit(Protocol):
    """One part of an image data set."""

    @property
    def labels(self) -> Tensor:
        """The class of every image, int64."""

    def __len__(self) -> int: ...

    def images(self, rows: Tensor) -> Tensor:
        """The images of the given rows as float32 (n, channels, height, width) between 0 and 1."""

    def part(self, rows: Tensor) -> ImageSplit:
        """The split of these rows alone, in their order."""


@dataclass(frozen=True)
class ArrayImages:
    """Images in memory: uint8 (n, channels, height, width) from 0 to `peak`.

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

    def part(self, rows: Tensor) -> ArrayImages:
        return ArrayImages(self.pixels[rows], self.labels[rows], self.peak)


@dataclass(frozen=True)
class FileImages:
    """Images in files, decoded when they are asked for: the central square, scaled to `size`, in RGB."""

    files: tuple[Path, ...]
    labels: Tensor
    size: int

    def __len__(self) -> int:
        return len(self.labels)

    def images(self, rows: Tensor) -> Tensor:
        decoded = [_decode(self.files[row], self.size) for row in rows.tolist()]
        return torch.stack(decoded) if decoded else torch.empty(0, 3, self.size, self.size)

    def part(self, rows: Tensor) -> FileImages:
        return FileImages(tuple(self.files[row] for row in rows.tolist()), self.labels[rows], self.size)


@dataclass(frozen=True)
class ImageData:
    """An image data set: its classes, the shape of its images, and its three parts."""

    name: str
    classes: tuple[str, ...]
    channels: int
    size: int
    train: ImageSplit
    validation: ImageSplit
    test: ImageSplit


S = TypeVar("S", ArrayImages, FileImages)


def hold_out(train: S) -> tuple[S, S]:
    """Training and validation part: validation is the last tenth of a fixed permutation.

    >>> split = ArrayImages(torch.zeros(30, 1, 2, 2, dtype=torch.uint8), torch.zeros(30, dtype=torch.int64))
    >>> [len(part) for part in hold_out(split)]
    [27, 3]
    """
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    held = max(1, len(train) // 10)
    return train.part(order[:-held]), train.part(order[-held:])


def _decode(path: Path, size: int) -> Tensor:
    """The central square of the image, scaled to (3, size, size): its shorter side becomes `size`."""
    need("PIL", "study", "decoding images")
    from PIL import Image

    try:
        with Image.open(path) as image:
            side = min(image.size)
            left, top = ((length - side) // 2 for length in image.size)
            square = (left, top, left + side, top + side)
            small = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR, box=square)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: cannot be decoded ({error}); it should be a whole image file") from None
    return torch.from_numpy(np.array(small)).permute(2, 0, 1).float() / 255
