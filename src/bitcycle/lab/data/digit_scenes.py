"""The embedded detection data: scenes composed of scikit-learn's digits.

Each scene shows one to four digits, scaled to 8 to 24 pixels, bright on a darker and slightly noisy background. The
three splits draw from disjoint sets of handwritten digits. Each scene is a function of (seed, split, index).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from bitcycle.lab.data.detection import DetectionData, DetectionSample
from bitcycle.lab.data.files import read_digits
from bitcycle.lab.data.splits import Split

Floats = NDArray[np.float32]
Box = tuple[int, int, int, int]

CLASSES = tuple("0123456789")
SHARES = (0.6, 0.2, 0.2)
"""The shares of the 1,797 source digits that the splits draw from."""
SIDE = 8
"""Height and width of the source digits."""
MAX_SCALE = 3
MAX_DIGITS = 4
INK_THRESHOLD = 0.2
"""The box of a digit encloses the pixels that are covered by at least this much."""
MAX_OVERLAP = 0.1
"""The largest share of a digit's box that another one may cover."""
ATTEMPTS = 20
"""Attempts to place a digit before it is left out."""


@dataclass(frozen=True)
class DigitScenes:
    """One split of the scenes."""

    split: Split
    count: int
    size: int
    seed: int

    def __len__(self) -> int:
        return self.count

    def sample(self, index: int) -> DetectionSample:
        """Draw a scene."""
        number = list(Split).index(self.split)
        rng = np.random.default_rng((self.seed, number, index))
        digits, labels = _source()[number]
        background, tint = rng.uniform(0.05, 0.35), rng.uniform(-0.05, 0.05, (3, 1, 1))
        scene = (background + tint + rng.normal(0, 0.03, (3, self.size, self.size))).astype(np.float32)
        boxes: list[Box] = []
        classes: list[int] = []
        for _ in range(rng.integers(1, MAX_DIGITS + 1)):
            which = rng.integers(len(digits))
            cover = _scaled(digits[which], int(rng.integers(SIDE, SIDE * MAX_SCALE + 1)))
            box = _random_box(rng, cover.shape, self.size, boxes)
            if box is None:
                continue  # the scene is full
            x1, y1, x2, y2 = box
            colour = rng.uniform(0.65, 1.0) + rng.uniform(-0.1, 0.1, (3, 1, 1))
            region = scene[:, y1:y2, x1:x2]
            region += cover * (colour.astype(np.float32) - region)
            boxes.append(box)
            classes.append(int(labels[which]))
        image = torch.from_numpy((scene.clip(0, 1) * 255).round().astype(np.uint8))
        return DetectionSample(
            torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
            torch.tensor(classes),
            torch.zeros(len(classes), dtype=torch.bool),
            image,
        )


def digit_scenes(
    train: int = 2000, validation: int = 200, test: int = 500, size: int = 64, seed: int = 0
) -> DetectionData:
    """Return scenes of digits, drawn on access.

    Args:
        train: Number of training scenes.
        validation: Number of validation scenes.
        test: Number of test scenes.
        size: Height and width of scenes in pixels.
        seed: Random seed.

    Example:
        >>> data = digit_scenes(train=100)
        >>> sample = data.train.sample(3)
        >>> sample.image.shape, len(sample.boxes) == len(sample.labels), len(data.train)
        (torch.Size([3, 64, 64]), True, 100)
    """
    counts = (train, validation, test)
    splits = (DigitScenes(name, count, size, seed) for name, count in zip(Split, counts, strict=True))
    return DetectionData("digit scenes", CLASSES, *splits)


@lru_cache(maxsize=1)
def _source() -> list[tuple[Floats, NDArray[np.int64]]]:
    """Return the digits of each split in [0, 1] and their labels, shuffled, since the file is ordered by writer."""
    pixels, labels = read_digits()
    images = (pixels / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(labels))
    bounds = np.cumsum([round(share * len(labels)) for share in SHARES[:-1]])
    return [(images[rows], labels[rows]) for rows in np.split(order, bounds)]


def _scaled(digit: Floats, side: int) -> Floats:
    """Return a digit scaled to ``side`` pixels and cropped to its ink."""
    weights = _bilinear(side)
    cover: Floats = np.linalg.multi_dot((weights, digit, weights.T))
    inked = cover >= INK_THRESHOLD
    rows, columns = np.flatnonzero(inked.any(1)), np.flatnonzero(inked.any(0))
    return cover[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


@lru_cache(maxsize=64)
def _bilinear(side: int) -> Floats:
    """Return the matrix (side, 8) that interpolates a row of 8 pixels linearly between pixel centres."""
    centres = ((np.arange(side) + 0.5) * SIDE / side - 0.5).clip(0, SIDE - 1)
    weights = 1 - np.abs(centres[:, None] - np.arange(SIDE))
    return weights.clip(0).astype(np.float32)


def _random_box(rng: np.random.Generator, shape: tuple[int, ...], size: int, taken: list[Box]) -> Box | None:
    """Draw a box of this shape that overlaps little with the others; None if there is no room."""
    height, width = shape
    for _ in range(ATTEMPTS):
        x, y = int(rng.integers(size - width + 1)), int(rng.integers(size - height + 1))
        box = (x, y, x + width, y + height)
        if all(_overlap(box, other) <= MAX_OVERLAP for other in taken):
            return box
    return None


def _overlap(a: Box, b: Box) -> float:
    """Return the intersection of two boxes as a share of the smaller one."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    smaller = min((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return max(0, width) * max(0, height) / smaller
