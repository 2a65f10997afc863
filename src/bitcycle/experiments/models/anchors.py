"""Anchors: the boxes that a detector starts from, and which object each of them answers for (Lin et al., 2017).

At every place of a feature map lie anchors of several scales and ratios of height to width, of the same area for one
scale. An anchor answers for the object it overlaps with most if their intersection over union is 0.5 or more, is
background below 0.4, and is left out of the loss in between. Every object also gets its best anchor, however bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bitcycle.experiments.models.boxes import iou

BACKGROUND, BETWEEN = -1, -2
"""What :func:`assign` gives to anchors without an object."""


@dataclass(frozen=True)
class Anchors:
    """The shapes of the anchors of a detector.

    >>> Anchors(side=4).on([(2, 3)], [8], torch.device("cpu")).shape
    torch.Size([54, 4])
    """

    side: float = 4.0
    """The side of the smallest square anchor, in strides of its level."""
    scales: tuple[float, ...] = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Height over width."""

    @property
    def each_place(self) -> int:
        """How many there are at each place."""
        return len(self.scales) * len(self.ratios)

    def on(self, shapes: Sequence[tuple[int, int]], strides: Sequence[int], device: torch.device) -> Tensor:
        """All anchors (n, 4) over feature maps of these heights and widths: by level, row, column, scale, ratio."""
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


def assign(anchors: Tensor, boxes: Tensor, at_least: float = 0.5, below: float = 0.4) -> Tensor:
    """For each anchor the index of the box it answers for, ``BACKGROUND``, or ``BETWEEN``.

    >>> anchors = torch.tensor([[0.0, 0.0, 8.0, 8.0], [0.0, 0.0, 8.0, 4.5], [8.0, 8.0, 16.0, 16.0]])
    >>> assign(anchors, torch.tensor([[0.0, 0.0, 8.0, 10.0]]))
    tensor([ 0, -2, -1])
    """
    if not len(boxes):
        return torch.full((len(anchors),), BACKGROUND, device=anchors.device)
    overlaps = iou(anchors, boxes)
    most, answers = overlaps.max(1)
    answers = answers.masked_fill(most < at_least, BETWEEN).masked_fill(most < below, BACKGROUND)
    return _with_best(answers, overlaps)


def _with_best(answers: Tensor, overlaps: Tensor) -> Tensor:
    """Give every box its best anchor, and of two boxes with the same one the other its next best."""
    most, best = overlaps.max(0)
    if len(best.unique()) < len(best):
        overlaps = overlaps.clone()
        for box in most.argsort(descending=True, stable=True).tolist():
            most[box], best[box] = overlaps[:, box].max(0)
            overlaps[best[box]] = 0
    touched = most > 0
    answers[best[touched]] = touched.nonzero().squeeze(1)
    return answers
