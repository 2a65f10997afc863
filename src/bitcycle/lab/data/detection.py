"""Detection data: images with boxes, and batches of images of one square size.

A box is ``x1 y1 x2 y2`` in pixels, half-open: the upper left pixel of an image is the box ``0 0 1 1``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.lab.data.splits import Splits


@dataclass(frozen=True)
class Target:
    """The objects of an image."""

    boxes: Tensor
    """float32 (n, 4)"""
    labels: Tensor
    """int64 (n,)"""
    difficult: Tensor
    """bool (n,): objects that Pascal VOC's metric ignores, whether they are detected or not"""


@dataclass(frozen=True)
class DetectionSample(Target):
    """An image with its objects."""

    image: Tensor
    """uint8 (3, height, width)"""


class DetectionSplit(Protocol):
    """Samples by index. Images in files are decoded on access."""

    def __len__(self) -> int: ...

    def sample(self, index: int) -> DetectionSample:
        """Return a sample, the same at each call."""
        ...


@dataclass(frozen=True)
class DetectionData(Splits[DetectionSplit]):
    """A detection data set with its three splits."""

    name: str
    classes: tuple[str, ...]
    train: DetectionSplit
    validation: DetectionSplit
    test: DetectionSplit


@dataclass(frozen=True)
class DetectionBatch:
    """Images of one size with their objects. Boxes are in pixels of the batch."""

    images: Tensor
    """float32 (batch, 3, size, size) in [0, 1]"""
    targets: list[Target]


def collate(samples: Sequence[DetectionSample], size: int, flip: Tensor | None = None) -> DetectionBatch:
    """Return a batch of images that keep their aspect ratio and are padded with black on the right and at the bottom.

    Args:
        samples: The samples, at least one.
        size: Height and width of the batch in pixels.
        flip: For each sample, whether it is flipped horizontally; ``None`` = no flips.

    Example:
        >>> tall = torch.full((3, 40, 20), 255, dtype=torch.uint8)
        >>> box = torch.tensor([[0.0, 0.0, 10.0, 40.0]])
        >>> sample = DetectionSample(box, torch.tensor([7]), torch.tensor([False]), tall)
        >>> batch = collate([sample, sample], 20, flip=torch.tensor([False, True]))
        >>> batch.images.shape, batch.images[0, 0, 0, 9:11].tolist()
        (torch.Size([2, 3, 20, 20]), [1.0, 0.0])
        >>> [target.boxes.tolist() for target in batch.targets]
        [[[0.0, 0.0, 5.0, 20.0]], [[5.0, 0.0, 10.0, 20.0]]]
    """
    flags = [False] * len(samples) if flip is None else flip.tolist()
    images = torch.zeros(len(samples), 3, size, size)
    targets = []
    for index, (sample, flipped) in enumerate(zip(samples, flags, strict=True)):
        image, boxes = _resized(sample, size)
        height, width = image.shape[1:]
        if flipped:
            image = image.flip(2)
            x1, y1, x2, y2 = boxes.unbind(1)
            boxes = torch.stack((width - x2, y1, width - x1, y2), 1)
        images[index, :, :height, :width] = image
        targets.append(Target(boxes, sample.labels, sample.difficult))
    return DetectionBatch(images, targets)


def _resized(sample: DetectionSample, size: int) -> tuple[Tensor, Tensor]:
    """Return the image in [0, 1], scaled so that its longer side is ``size``, and its boxes."""
    image = sample.image.float() / 255
    height, width = image.shape[1:]
    longer = max(height, width)
    if longer == size:
        return image, sample.boxes
    new_height, new_width = (max(1, round(side * size / longer)) for side in (height, width))
    image = F.interpolate(image[None], (new_height, new_width), mode="bilinear", antialias=True)[0].clamp(0, 1)
    # Sides are rounded to pixels, so that the two scales may differ slightly.
    scales = torch.tensor([new_width / width, new_height / height] * 2)
    return image, sample.boxes * scales
