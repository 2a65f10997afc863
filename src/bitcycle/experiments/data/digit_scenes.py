"""Scenes composed of scikit-learn's digits: detection with no download.

Each scene shows one to four digits, 8 to 24 pixels high, bright on a darker, lightly noisy ground. The three splits
draw from disjoint sets of handwritten digits, and each scene is a pure function of (seed, split, number).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from bitcycle._support.extras import need
from bitcycle.experiments.data.detection import DetectionData, DetectionSample

Floats = NDArray[np.float32]

CLASSES = tuple("0123456789")
SPLITS = ("train", "validation", "test")
SHARES = (0.6, 0.2, 0.2)
"""The parts of the 1,797 source digits that the splits draw from."""
SIDE = 8
LARGEST = 3
"""Source digits have 8 x 8 pixels and are scaled up to three times that."""
MOST = 4
INK = 0.2
"""A pixel belongs to a digit, for its box, where it covers at least this much."""
OVERLAP = 0.1
"""The largest part of a digit's box that another one may hide."""
TRIES = 20


@dataclass(frozen=True)
class DigitScenes:
    """One split of the scenes."""

    split: str
    count: int
    size: int
    seed: int

    def __len__(self) -> int:
        return self.count

    def sample(self, index: int) -> DetectionSample:
        """Paint a scene."""
        if not 0 <= index < self.count:
            raise IndexError(f"there are {self.count} scenes, numbered from 0: no {index}")
        part = SPLITS.index(self.split)
        rng = np.random.default_rng((self.seed, part, index))
        digits, labels = _source()[part]
        ground, tint = rng.uniform(0.05, 0.35), rng.uniform(-0.05, 0.05, (3, 1, 1))
        scene = (ground + tint + rng.normal(0, 0.03, (3, self.size, self.size))).astype(np.float32)
        boxes: list[tuple[int, int, int, int]] = []
        names: list[int] = []
        for _ in range(rng.integers(1, MOST + 1)):
            which = rng.integers(len(digits))
            cover = _scaled(digits[which], int(rng.integers(SIDE, SIDE * LARGEST + 1)))
            place = _place(rng, cover.shape, self.size, boxes)
            if place is None:
                continue  # the scene is full
            x1, y1, x2, y2 = place
            colour = rng.uniform(0.65, 1.0) + rng.uniform(-0.1, 0.1, (3, 1, 1))
            there = scene[:, y1:y2, x1:x2]
            there += cover * (colour.astype(np.float32) - there)
            boxes.append(place)
            names.append(int(labels[which]))
        image = torch.from_numpy((scene.clip(0, 1) * 255).round().astype(np.uint8))
        found = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)
        return DetectionSample(found, torch.tensor(names), torch.zeros(len(names), dtype=torch.bool), image)


def digit_scenes(
    train: int = 2000, validation: int = 200, test: int = 500, size: int = 64, seed: int = 0
) -> DetectionData:
    """So many scenes a split, each ``size`` pixels wide and high.

    >>> data = digit_scenes(train=100)
    >>> sample = data.train.sample(3)
    >>> sample.image.shape, len(sample.boxes) == len(sample.labels), len(data.train)
    (torch.Size([3, 64, 64]), True, 100)
    """
    if size < SIDE * LARGEST:
        raise ValueError(f"a scene of digits is at least {SIDE * LARGEST} pixels wide, not {size}")
    counts = (train, validation, test)
    if min(counts) < 1:
        raise ValueError(f"every split has at least one scene, unlike {', '.join(map(str, counts))}")
    if seed < 0:
        raise ValueError(f"a seed is 0 or more, not {seed}")
    splits = (DigitScenes(name, count, size, seed) for name, count in zip(SPLITS, counts, strict=True))
    return DetectionData("digit scenes", CLASSES, *splits)


@lru_cache(maxsize=1)
def _source() -> list[tuple[Floats, NDArray[np.int64]]]:
    """The digits of each split, in [0, 1], and their labels; shuffled, since the file goes writer by writer."""
    bunch = need("sklearn.datasets", "study", "the scenes of digits").load_digits()
    images, labels = (bunch.images / 16).astype(np.float32), bunch.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    bounds = np.cumsum([round(share * len(labels)) for share in SHARES[:-1]])
    return [(images[part], labels[part]) for part in np.split(order, bounds)]


def _scaled(digit: Floats, side: int) -> Floats:
    """A digit with so many pixels a side, cut to its ink."""
    weights = _bilinear(side)
    cover: Floats = np.linalg.multi_dot((weights, digit, weights.T))
    inked = cover >= INK
    rows, columns = np.flatnonzero(inked.any(1)), np.flatnonzero(inked.any(0))
    return cover[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


@lru_cache(maxsize=64)
def _bilinear(side: int) -> Floats:
    """The matrix (side, 8) that interpolates a line of 8 pixels linearly, pixel centres on pixel centres."""
    centres = ((np.arange(side) + 0.5) * SIDE / side - 0.5).clip(0, SIDE - 1)
    weights = 1 - np.abs(centres[:, None] - np.arange(SIDE))
    return weights.clip(0).astype(np.float32)


def _place(
    rng: np.random.Generator, shape: tuple[int, ...], size: int, taken: list[tuple[int, int, int, int]]
) -> tuple[int, int, int, int] | None:
    """A random box of this shape that hides, and is hidden by, little of the others."""
    height, width = shape
    for _ in range(TRIES):
        x, y = int(rng.integers(size - width + 1)), int(rng.integers(size - height + 1))
        box = (x, y, x + width, y + height)
        if all(_hidden(box, other) <= OVERLAP for other in taken):
            return box
    return None


def _hidden(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> float:
    """The intersection of two boxes as a part of the smaller one."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    smaller = min((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return max(0, width) * max(0, height) / smaller
