"""The loss of a detector, and what it detects: functions of its outputs.

    focal:      -alpha_t (1 - p_t)^gamma log p_t,  p_t the probability of what is true, over all anchors and classes
    smooth L1:  of the four differences, over the anchors that answer for an object

Each is summed and divided by the number of such anchors (Lin et al., 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from bitcycle.experiments.data.detection import Target
from bitcycle.experiments.models.anchors import BETWEEN, assign
from bitcycle.experiments.models.boxes import Detections, clip, decode, encode, suppress_by_class
from bitcycle.experiments.models.retinanet import Outputs


class Losses(NamedTuple):
    """The two parts of the loss."""

    classes: Tensor
    boxes: Tensor

    @property
    def total(self) -> Tensor:
        """Their sum."""
        return self.classes + self.boxes


def focal_loss(logits: Tensor, truth: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """The focal loss of each logit against a truth of 0 or 1.

    >>> focal_loss(torch.zeros(2), torch.tensor([0.0, 1.0]))  # 0.75 and 0.25 times 0.5^2 ln 2
    tensor([0.1300, 0.0433])
    """
    probability = logits.sigmoid()
    wrong = probability + truth - 2 * probability * truth
    weight = alpha * truth + (1 - alpha) * (1 - truth)
    return weight * wrong**gamma * F.binary_cross_entropy_with_logits(logits, truth, reduction="none")


def retinanet_loss(outputs: Outputs, targets: Sequence[Target], beta: float = 1 / 9) -> Losses:
    """The loss of a batch; ``beta`` is where the smooth L1 loss turns from a square into a line.

    >>> from bitcycle.experiments.models.retinanet import RetinaNet
    >>> model, box = RetinaNet.small(10), torch.tensor([[8.0, 8.0, 20.0, 24.0]])
    >>> target = Target(box, torch.tensor([3]), torch.tensor([False]))
    >>> retinanet_loss(model(torch.zeros(1, 3, 64, 64)), [target]).total.isfinite()
    tensor(True)
    """
    # In full precision under autocast too, and wherever the images are.
    logits, differences, anchors = outputs.logits.float(), outputs.differences.float(), outputs.anchors
    answers = torch.stack([assign(anchors, target.boxes.to(anchors.device)) for target in targets])
    image, anchor = (answers >= 0).nonzero(as_tuple=True)
    # The objects of all images in one row: those of an image begin where those before it end.
    starts = torch.tensor([0, *(len(target.boxes) for target in targets)], device=anchors.device).cumsum(0)
    which = answers[image, anchor] + starts[image]
    boxes = torch.cat([target.boxes for target in targets]).to(anchors.device)[which]
    labels = torch.cat([target.labels for target in targets]).to(anchors.device)[which]
    truth = torch.zeros_like(logits)
    truth[image, anchor, labels] = 1
    classes = focal_loss(logits, truth) * (answers != BETWEEN).unsqueeze(-1)
    off = F.smooth_l1_loss(differences[image, anchor], encode(boxes, anchors[anchor]), beta=beta, reduction="sum")
    number = max(1, len(image))
    return Losses(classes.sum() / number, off / number)


@torch.no_grad()
def detect(
    outputs: Outputs, threshold: float = 0.05, top: int = 1000, overlap: float = 0.5, most: int = 100
) -> list[Detections]:
    """What is in each image: scores of ``threshold`` or more, the ``top`` of each level, after suppression.

    ``overlap`` is the intersection over union from which on the less sure of two boxes of a class is dropped, ``most``
    the number of detections an image may have.
    """
    found = []
    for logits, differences in zip(outputs.logits.float(), outputs.differences.float(), strict=True):
        places = []
        start = 0
        for count in outputs.levels:
            scores = logits[start : start + count].flatten()
            best = scores.topk(min(top, len(scores))).indices
            places.append(start * logits.shape[1] + best)
            start += count
        place = torch.cat(places)
        scores = logits.flatten()[place].sigmoid()
        place, scores = place[scores >= threshold], scores[scores >= threshold]
        anchor, labels = place // logits.shape[1], place % logits.shape[1]
        boxes = clip(decode(differences[anchor], outputs.anchors[anchor]), *outputs.size)
        kept = suppress_by_class(boxes, scores, labels, overlap)[:most]
        found.append(Detections(boxes[kept], scores[kept], labels[kept]))
    return found
