"""RetinaNet (Lin et al., 2017): its network, its loss, and its detections.

The network has a backbone, a feature pyramid, and two small networks that are applied to every level of the pyramid.
Level l has a stride of 2^l pixels. The class network predicts a logit per class at each anchor. The box network
predicts the offsets of the object's box from the anchor. Their weights are shared by all levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.lab.data.detection import Target
from bitcycle.lab.models.backbones import ResNetFeatures, SmallFeatures
from bitcycle.lab.models.boxes import (
    IGNORED,
    Anchors,
    Detections,
    assign,
    clip,
    decode,
    encode,
    suppress_by_class,
)

PRIOR = 0.01
"""The object probability that an untrained network predicts, so that background does not dominate the loss."""


class Outputs(NamedTuple):
    """The outputs of a RetinaNet for a batch. The loss and the detections are functions of them."""

    logits: Tensor
    """(batch, anchors, classes)"""
    offsets: Tensor
    """(batch, anchors, 4)"""
    anchors: Tensor
    """(anchors, 4)"""
    levels: tuple[int, ...]
    """Number of anchors of each level."""
    size: tuple[int, int]
    """Height and width of the images."""

    def of_image(self, row: int) -> Outputs:
        """Return the outputs for one image of the batch."""
        return self._replace(logits=self.logits[row : row + 1], offsets=self.offsets[row : row + 1])


class Pyramid(nn.Module):
    """A feature pyramid.

    A level is the sum of the backbone's features and the upsampled coarser level, followed by a convolution. Levels
    above the backbone's are computed from its last output by convolutions of stride 2.
    """

    def __init__(self, in_channels: Sequence[int], channels: int, extra: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(inputs, channels, 1) for inputs in in_channels)
        self.smooth = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in in_channels)
        self.beyond = nn.ModuleList(
            nn.Conv2d(channels if index else in_channels[-1], channels, 3, 2, padding=1) for index in range(extra)
        )

    def forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        merged = [self.lateral[-1](features[-1])]
        for lateral, feature in zip(self.lateral[-2::-1], features[-2::-1], strict=False):
            coarser = F.interpolate(merged[0], feature.shape[-2:], mode="nearest")
            merged.insert(0, lateral(feature) + coarser)
        levels = [smooth(level) for smooth, level in zip(self.smooth, merged, strict=True)]
        x = features[-1]
        for index, layer in enumerate(self.beyond):
            x = layer(F.relu(x) if index else x)
            levels.append(x)
        return levels


def _subnet(channels: int, layers: int, out: int, bias: float) -> nn.Sequential:
    """Return convolutions with ReLUs. The weights of the last one are small, so that training starts from its bias.

    The paper initialises all weights with a standard deviation of 0.01, which suits 256 channels. With few channels,
    the signal would vanish.
    """
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [_conv(channels, channels, math.sqrt(2 / (9 * channels)), 0.0), nn.ReLU()]
    return nn.Sequential(*parts, _conv(channels, out, 0.01, bias))


def _conv(in_channels: int, out_channels: int, std: float, bias: float) -> nn.Conv2d:
    layer = nn.Conv2d(in_channels, out_channels, 3, padding=1)
    nn.init.normal_(layer.weight, std=std)
    assert layer.bias is not None
    nn.init.constant_(layer.bias, bias)
    return layer


class RetinaNet(nn.Module):
    """A detector of images, which are float (batch, 3, height, width) in [0, 1].

    Args:
        classes: Number of classes.
        depth: Layers of the residual network, if no backbone is given.
        channels: Channels of the feature pyramid.
        levels: The first and the last level of the pyramid.
        layers: Convolutions of the class and the box network before the last one.
        anchors: The shapes of anchors.
        backbone: The feature extractor.

    Example:
        >>> outputs = RetinaNet.small(10)(torch.zeros(2, 3, 64, 64))
        >>> outputs.logits.shape, outputs.levels
        (torch.Size([2, 1008, 10]), (768, 192, 48))
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        classes: int,
        depth: int = 18,
        *,
        channels: int = 256,
        levels: tuple[int, int] = (3, 7),
        layers: int = 4,
        anchors: Anchors | None = None,
        backbone: ResNetFeatures | SmallFeatures | None = None,
    ) -> None:
        super().__init__()
        if classes < 1:
            raise ValueError(f"classes must be 1 or more, got {classes}")
        self.backbone = ResNetFeatures(depth) if backbone is None else backbone
        first, last = levels
        top = self.backbone.first + len(self.backbone.channels) - 1
        if not self.backbone.first <= first <= top <= last:
            raise ValueError(
                f"the pyramid must start at a level from {self.backbone.first} to {top} and end at {top} or higher, "
                f"got {first} to {last}"
            )
        self.classes, self.levels = classes, levels
        self.anchors = Anchors() if anchors is None else anchors
        self.pyramid = Pyramid(self.backbone.channels[first - self.backbone.first :], channels, last - top)
        anchors_per_position = self.anchors.per_position
        self.class_net = _subnet(channels, layers, anchors_per_position * classes, -math.log((1 - PRIOR) / PRIOR))
        self.box_net = _subnet(channels, layers, anchors_per_position * 4, 0.0)
        # ImageNet's, which pretrained weights expect.
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1), persistent=False)

    @classmethod
    def small(cls, classes: int) -> RetinaNet:
        """Return a detector that learns 64 x 64 scenes of digits in less than half a minute on one core.

        Its pyramid has the levels 2 to 4. Its anchors, of 8 to 50 pixels, are 1.5 times as high as wide, like digits.
        """
        backbone, anchors = SmallFeatures((16, 32, 64)), Anchors(side=2.0, ratios=(1.5,))
        return cls(classes, channels=32, levels=(2, 4), layers=1, anchors=anchors, backbone=backbone)

    def forward(self, images: Tensor) -> Outputs:
        features = self.backbone((images - self.mean) / self.std)
        first, last = self.levels
        maps = self.pyramid(features[first - self.backbone.first :])
        logits = torch.cat([_by_anchor(self.class_net(level), self.classes) for level in maps], 1)
        offsets = torch.cat([_by_anchor(self.box_net(level), 4) for level in maps], 1)
        shapes = [(level.shape[-2], level.shape[-1]) for level in maps]
        anchors = self.anchors.on(shapes, [2**level for level in range(first, last + 1)], images.device)
        counts = tuple(height * width * self.anchors.per_position for height, width in shapes)
        return Outputs(logits, offsets, anchors, counts, (images.shape[-2], images.shape[-1]))


def _by_anchor(out: Tensor, values: int) -> Tensor:
    """Reshape (batch, anchors x values, height, width) to (batch, height x width x anchors, values)."""
    return out.permute(0, 2, 3, 1).reshape(out.shape[0], -1, values)


class Losses(NamedTuple):
    """The two terms of the loss."""

    classes: Tensor
    boxes: Tensor

    @property
    def total(self) -> Tensor:
        """Their sum."""
        return self.classes + self.boxes


def focal_loss(logits: Tensor, target: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """Return the focal loss of each logit against a target of 0 or 1.

    >>> focal_loss(torch.zeros(2), torch.tensor([0.0, 1.0]))  # 0.75 and 0.25 times 0.5^2 ln 2
    tensor([0.1300, 0.0433])
    """
    probability = logits.sigmoid()
    error = probability + target - 2 * probability * target
    weight = alpha * target + (1 - alpha) * (1 - target)
    return weight * error**gamma * F.binary_cross_entropy_with_logits(logits, target, reduction="none")


def retinanet_loss(outputs: Outputs, targets: Sequence[Target], beta: float = 1 / 9) -> Losses:
    """Return the loss of a batch: the focal loss of classes and the smooth L1 loss of boxes (Lin et al., 2017).

        focal:      -alpha_t (1 - p_t)^gamma log p_t,  p_t = probability of the true label, over all anchors and classes
        smooth L1:  of the four offsets, over the anchors that are assigned to an object

    Each is summed and divided by the number of assigned anchors.

    Args:
        outputs: The outputs of the network.
        targets: The objects of each image.
        beta: Where the smooth L1 loss changes from quadratic to linear.

    >>> model, box = RetinaNet.small(10), torch.tensor([[8.0, 8.0, 20.0, 24.0]])
    >>> target = Target(box, torch.tensor([3]), torch.tensor([False]))
    >>> retinanet_loss(model(torch.zeros(1, 3, 64, 64)), [target]).total.isfinite()
    tensor(True)
    """
    # The loss is in full precision under autocast, too.
    logits, offsets, anchors = outputs.logits.float(), outputs.offsets.float(), outputs.anchors
    assigned = torch.stack([assign(anchors, target.boxes.to(anchors.device)) for target in targets])
    image, anchor = (assigned >= 0).nonzero(as_tuple=True)
    # The objects of all images are concatenated: those of an image begin where those of the previous one end.
    starts = torch.tensor([0, *(len(target.boxes) for target in targets)], device=anchors.device).cumsum(0)
    indices = assigned[image, anchor] + starts[image]
    boxes = torch.cat([target.boxes for target in targets]).to(anchors.device)[indices]
    labels = torch.cat([target.labels for target in targets]).to(anchors.device)[indices]
    target_classes = torch.zeros_like(logits)
    target_classes[image, anchor, labels] = 1
    classes = focal_loss(logits, target_classes) * (assigned != IGNORED).unsqueeze(-1)
    box_loss = F.smooth_l1_loss(offsets[image, anchor], encode(boxes, anchors[anchor]), beta=beta, reduction="sum")
    count = max(1, len(image))
    return Losses(classes.sum() / count, box_loss / count)


@torch.no_grad()
def detect(
    outputs: Outputs, threshold: float = 0.05, top: int = 1000, overlap: float = 0.5, limit: int = 100
) -> list[Detections]:
    """Return the detections of each image.

    Args:
        outputs: The outputs of the network.
        threshold: The lowest score of a detection.
        top: The largest number of candidates per pyramid level.
        overlap: Non-maximum suppression drops boxes of the same class with a higher IoU than this.
        limit: The largest number of detections per image.
    """
    detections = []
    for logits, offsets in zip(outputs.logits.float(), outputs.offsets.float(), strict=True):
        candidates = []
        start = 0
        for count in outputs.levels:
            scores = logits[start : start + count].flatten()
            best = scores.topk(min(top, len(scores))).indices
            candidates.append(start * logits.shape[1] + best)
            start += count
        index = torch.cat(candidates)
        scores = logits.flatten()[index].sigmoid()
        index, scores = index[scores >= threshold], scores[scores >= threshold]
        anchor, labels = index // logits.shape[1], index % logits.shape[1]
        boxes = clip(decode(offsets[anchor], outputs.anchors[anchor]), *outputs.size)
        kept = suppress_by_class(boxes, scores, labels, overlap)[:limit]
        detections.append(Detections(boxes[kept], scores[kept], labels[kept]))
    return detections
