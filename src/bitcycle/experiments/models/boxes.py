"""Boxes ``x1 y1 x2 y2``: their overlap, how a network writes them, and non-maximum suppression.

A network gives a box as its difference to an anchor (Girshick et al., 2014): the shift of the centre in widths and
heights of the anchor, and the logarithms of the ratios of the sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LARGEST_GROWTH = math.log(1000 / 16)
"""A bound on the logarithm of how much a box may be larger than its anchor: an untrained network cannot overflow."""


@dataclass(frozen=True)
class Detections:
    """What was found in an image, the surest first."""

    boxes: Tensor
    """float32 (n, 4)"""
    scores: Tensor
    """float32 (n,)"""
    labels: Tensor
    """int64 (n,)"""


def area(boxes: Tensor) -> Tensor:
    """Width times height, for boxes (..., 4)."""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of every box of ``a`` (n, 4) with every one of ``b`` (m, 4): (n, m).

    >>> iou(torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 0.0, 3.0, 2.0], [2.0, 2.0, 3.0, 3.0]]))
    tensor([[0.3333, 0.0000]])
    """
    corner = torch.maximum(a[:, None, :2], b[None, :, :2])
    width, height = (torch.minimum(a[:, None, 2:], b[None, :, 2:]) - corner).clamp(min=0).unbind(-1)
    shared = width * height
    union = area(a)[:, None] + area(b) - shared
    return torch.where(union > 0, shared / union, 0)  # empty boxes overlap with nothing, not even each other


def encode(boxes: Tensor, anchors: Tensor) -> Tensor:
    """Boxes (..., 4) as differences to anchors of the same shape.

    >>> encode(torch.tensor([[1.0, 0.0, 3.0, 2.0]]), torch.tensor([[0.0, 0.0, 2.0, 2.0]]))
    tensor([[0.5000, 0.0000, 0.0000, 0.0000]])
    """
    centre, sides = _centre_and_sides(boxes)
    of_anchor, anchor_sides = _centre_and_sides(anchors)
    return torch.cat(((centre - of_anchor) / anchor_sides, (sides / anchor_sides).log()), -1)


def decode(differences: Tensor, anchors: Tensor) -> Tensor:
    """The boxes that are meant by differences to anchors: undoes :func:`encode`."""
    of_anchor, anchor_sides = _centre_and_sides(anchors)
    centre = of_anchor + differences[..., :2] * anchor_sides
    half = differences[..., 2:].clamp(max=LARGEST_GROWTH).exp() * anchor_sides / 2
    return torch.cat((centre - half, centre + half), -1)


def clip(boxes: Tensor, height: int, width: int) -> Tensor:
    """The part of each box (..., 4) that lies in an image."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    return torch.stack((x1.clamp(0, width), y1.clamp(0, height), x2.clamp(0, width), y2.clamp(0, height)), -1)


def suppress(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Non-maximum suppression: the indices of the boxes that stay, the surest first.

    From the surest on, a box stays if it overlaps with none that stays already by more than the threshold.

    >>> boxes = torch.tensor([[0.0, 0.0, 9.0, 9.0], [0.0, 0.0, 10.0, 10.0], [20.0, 0.0, 30.0, 10.0]])
    >>> suppress(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5)
    tensor([1, 2])
    """
    order = scores.argsort(descending=True, stable=True)
    ordered = boxes[order]
    rivals = (iou(ordered, ordered) > threshold).triu(1)
    # Whether a box stays depends on surer ones alone. So repeating the rule for all at once settles the surest box,
    # then the next, and most others along with them: it ends where going through them one by one does, much sooner.
    stays = torch.ones_like(order, dtype=torch.bool)
    while True:
        after = ~(rivals & stays[:, None]).any(0)
        if torch.equal(after, stays):
            return order[stays]
        stays = after


def suppress_by_class(boxes: Tensor, scores: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """Non-maximum suppression within each class: the indices that stay, the surest first."""
    kept = [torch.empty(0, dtype=torch.int64, device=boxes.device)]
    for label in labels.unique():
        here = (labels == label).nonzero().squeeze(1)
        kept.append(here[suppress(boxes[here], scores[here], threshold)])
    left = torch.cat(kept)
    return left[scores[left].argsort(descending=True, stable=True)]


def _centre_and_sides(boxes: Tensor) -> tuple[Tensor, Tensor]:
    return (boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]
