"""Boxes ``x1 y1 x2 y2``: overlap, encoding relative to anchors, non-maximum suppression, and anchors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MAX_LOG_RATIO = math.log(1000 / 16)
"""The largest logarithm of the ratio of a box to its anchor, so that an untrained network cannot overflow."""
BACKGROUND, IGNORED = -1, -2
"""The results of :func:`assign` for anchors without an object."""


@dataclass(frozen=True)
class Detections:
    """The detections of an image, in decreasing order of their scores."""

    boxes: Tensor
    """float32 (n, 4)"""
    scores: Tensor
    """float32 (n,)"""
    labels: Tensor
    """int64 (n,)"""


def area(boxes: Tensor) -> Tensor:
    """Return the areas of boxes (..., 4)."""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the intersection over union (n, m) of every box of ``a`` (n, 4) with every box of ``b`` (m, 4).

    >>> iou(torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 0.0, 3.0, 2.0], [2.0, 2.0, 3.0, 3.0]]))
    tensor([[0.3333, 0.0000]])
    """
    corner = torch.maximum(a[:, None, :2], b[None, :, :2])
    width, height = (torch.minimum(a[:, None, 2:], b[None, :, 2:]) - corner).clamp(min=0).unbind(-1)
    intersection = width * height
    union = area(a)[:, None] + area(b) - intersection
    return torch.where(union > 0, intersection / union, 0)  # empty boxes overlap with nothing


def encode(boxes: Tensor, anchors: Tensor) -> Tensor:
    """Return boxes (..., 4) as offsets from anchors (..., 4).

    The offsets (Girshick et al., 2014) are the shift of the centre, in widths and heights of the anchor, and the
    logarithms of the ratios of width and height.

    >>> encode(torch.tensor([[1.0, 0.0, 3.0, 2.0]]), torch.tensor([[0.0, 0.0, 2.0, 2.0]]))
    tensor([[0.5000, 0.0000, 0.0000, 0.0000]])
    """
    centre, sides = _centre_and_sides(boxes)
    anchor_centre, anchor_sides = _centre_and_sides(anchors)
    return torch.cat(((centre - anchor_centre) / anchor_sides, (sides / anchor_sides).log()), -1)


def decode(offsets: Tensor, anchors: Tensor) -> Tensor:
    """Return the boxes of offsets from anchors: the inverse of :func:`encode`."""
    anchor_centre, anchor_sides = _centre_and_sides(anchors)
    centre = anchor_centre + offsets[..., :2] * anchor_sides
    half = offsets[..., 2:].clamp(max=MAX_LOG_RATIO).exp() * anchor_sides / 2
    return torch.cat((centre - half, centre + half), -1)


def clip(boxes: Tensor, height: int, width: int) -> Tensor:
    """Return boxes (..., 4) clipped to an image."""
    x1, y1, x2, y2 = boxes.unbind(-1)
    return torch.stack((x1.clamp(0, width), y1.clamp(0, height), x2.clamp(0, width), y2.clamp(0, height)), -1)


def suppress(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Return the indices of the boxes that remain after non-maximum suppression, in decreasing order of their scores.

    In this order, a box remains if its intersection over union with every box that remains so far is at most the
    threshold.

    >>> boxes = torch.tensor([[0.0, 0.0, 9.0, 9.0], [0.0, 0.0, 10.0, 10.0], [20.0, 0.0, 30.0, 10.0]])
    >>> suppress(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5)
    tensor([1, 2])
    """
    order = scores.argsort(descending=True, stable=True)
    ordered = boxes[order]
    overlapping = (iou(ordered, ordered) > threshold).triu(1)
    # Whether a box remains depends only on boxes of higher scores. Applying the rule to all boxes at once, repeatedly,
    # settles them in order of their scores, many at a time. The result is that of the sequential rule, but much faster.
    remains = torch.ones_like(order, dtype=torch.bool)
    while True:
        updated = ~(overlapping & remains[:, None]).any(0)
        if torch.equal(updated, remains):
            return order[remains]
        remains = updated


def suppress_by_class(boxes: Tensor, scores: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """Return the indices that remain after non-maximum suppression within each class."""
    kept = [torch.empty(0, dtype=torch.int64, device=boxes.device)]
    for label in labels.unique():
        rows = (labels == label).nonzero().squeeze(1)
        kept.append(rows[suppress(boxes[rows], scores[rows], threshold)])
    indices = torch.cat(kept)
    return indices[scores[indices].argsort(descending=True, stable=True)]


def _centre_and_sides(boxes: Tensor) -> tuple[Tensor, Tensor]:
    return (boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]


@dataclass(frozen=True)
class Anchors:
    """The shapes of the anchors of a detector (Lin et al., 2017).

    Every position of a feature map has one anchor per scale and aspect ratio. Anchors of the same scale have the same
    area.

    >>> Anchors(side=4).on([(2, 3)], [8], torch.device("cpu")).shape
    torch.Size([54, 4])
    """

    side: float = 4.0
    """The side of the smallest square anchor, in strides of its pyramid level."""
    scales: tuple[float, ...] = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Ratios of height to width."""

    @property
    def per_position(self) -> int:
        """Number of anchors per position."""
        return len(self.scales) * len(self.ratios)

    def on(self, shapes: Sequence[tuple[int, int]], strides: Sequence[int], device: torch.device) -> Tensor:
        """Return all anchors (n, 4) of feature maps, ordered by level, row, column, scale and ratio.

        Args:
            shapes: Height and width of each feature map.
            strides: The stride of each feature map in pixels.
            device: Where the anchors are created.
        """
        return torch.cat([self._level(*shape, stride, device) for shape, stride in zip(shapes, strides, strict=True)])

    def _level(self, height: int, width: int, stride: int, device: torch.device) -> Tensor:
        sides = torch.tensor(
            [
                (self.side * stride * scale / ratio**0.5, self.side * stride * scale * ratio**0.5)
                for scale in self.scales
                for ratio in self.ratios
            ],
            device=device,
        )
        y, x = ((torch.arange(n, device=device) + 0.5) * stride for n in (height, width))
        centres = torch.stack((x.expand(height, width), y[:, None].expand(height, width)), -1)[:, :, None]
        return torch.cat((centres - sides / 2, centres + sides / 2), -1).reshape(-1, 4)


def assign(anchors: Tensor, boxes: Tensor, foreground: float = 0.5, background: float = 0.4) -> Tensor:
    """Return for each anchor the index of its box, ``BACKGROUND``, or ``IGNORED``.

    An anchor is assigned to the box with the highest IoU if the IoU is at least ``foreground``. It is background if the
    IoU is below ``background``, and ignored in the loss in between. Every box is also assigned its best anchor.

    >>> anchors = torch.tensor([[0.0, 0.0, 8.0, 8.0], [0.0, 0.0, 8.0, 4.5], [8.0, 8.0, 16.0, 16.0]])
    >>> assign(anchors, torch.tensor([[0.0, 0.0, 8.0, 10.0]]))
    tensor([ 0, -2, -1])
    """
    if not len(boxes):
        return torch.full((len(anchors),), BACKGROUND, device=anchors.device)
    overlaps = iou(anchors, boxes)
    best_iou, assigned = overlaps.max(1)
    assigned = assigned.masked_fill(best_iou < foreground, IGNORED).masked_fill(best_iou < background, BACKGROUND)
    return _with_best_anchors(assigned, overlaps)


def _with_best_anchors(assigned: Tensor, overlaps: Tensor) -> Tensor:
    """Assign to every box its best anchor. If two boxes have the same one, the box with the lower IoU gets another."""
    best_iou, best = overlaps.max(0)
    if len(best.unique()) < len(best):
        overlaps = overlaps.clone()
        for box in best_iou.argsort(descending=True, stable=True).tolist():
            best_iou[box], best[box] = overlaps[:, box].max(0)
            overlaps[best[box]] = 0
    reached = best_iou > 0
    assigned[best[reached]] = reached.nonzero().squeeze(1)
    return assigned
