"""RetinaNet (Lin et al., 2017): a residual network, a feature pyramid, and two small networks at every level of it.

Level l of the pyramid has a stride of 2^l pixels. The class network gives a logit for each class at each anchor, the
box network the difference of the object's box to the anchor; both have the same weights at all levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.experiments.models.anchors import Anchors
from bitcycle.experiments.models.imagenet_resnet import Basic, ImageNetResNet

PRIOR = 0.01
"""The probability of an object that an untrained network gives everywhere, lest background swamp the loss."""


class Outputs(NamedTuple):
    """What a RetinaNet says about a batch; its loss and its detections are functions of it."""

    logits: Tensor
    """(batch, anchors, classes)"""
    differences: Tensor
    """(batch, anchors, 4)"""
    anchors: Tensor
    """(anchors, 4)"""
    levels: tuple[int, ...]
    """How many anchors each level has."""
    size: tuple[int, int]
    """Height and width of the images."""


class ResNetFeatures(ImageNetResNet):
    """A residual network without its classifier: the outputs of the stages, at strides 4 to 32."""

    first = 2
    """The level of the first output."""

    def __init__(self, depth: int) -> None:
        super().__init__(depth, classes=1)
        self.channels = tuple(self.fc.in_features // 2**i for i in (3, 2, 1, 0))
        del self.fc

    def forward(self, x: Tensor) -> list[Tensor]:  # type: ignore[override]
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        outs = []
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
            outs.append(x)
        return outs


class SmallFeatures(nn.Module):
    """A stem and a basic block a stage, for images of some 64 pixels: outputs at strides 2, 4, 8..."""

    first = 1

    def __init__(self, channels: tuple[int, ...]) -> None:
        super().__init__()
        self.channels = channels
        self.conv1 = nn.Conv2d(3, channels[0], 3, 2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels[0])
        insides = (channels[0], *channels)
        self.stages = nn.ModuleList(
            Basic(inside, width, 2 if place else 1)
            for place, (inside, width) in enumerate(zip(insides, channels, strict=False))
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> list[Tensor]:
        x = F.relu(self.bn1(self.conv1(x)))
        outs = []
        for stage in self.stages:
            x = stage(x)
            outs.append(x)
        return outs


class Pyramid(nn.Module):
    """Each level: the backbone's features, with those of the coarser level, twice enlarged, added; then a convolution.

    Levels beyond the backbone's are made from its last output by convolutions of stride 2.
    """

    def __init__(self, insides: Sequence[int], channels: int, beyond: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(inside, channels, 1) for inside in insides)
        self.smooth = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in insides)
        self.beyond = nn.ModuleList(
            nn.Conv2d(channels if place else insides[-1], channels, 3, 2, padding=1) for place in range(beyond)
        )

    def forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        merged = [self.lateral[-1](features[-1])]
        for lateral, feature in zip(self.lateral[-2::-1], features[-2::-1], strict=False):
            coarser = F.interpolate(merged[0], feature.shape[-2:], mode="nearest")
            merged.insert(0, lateral(feature) + coarser)
        levels = [smooth(level) for smooth, level in zip(self.smooth, merged, strict=True)]
        x = features[-1]
        for place, layer in enumerate(self.beyond):
            x = layer(F.relu(x) if place else x)
            levels.append(x)
        return levels


def _subnet(channels: int, layers: int, out: int, bias: float) -> nn.Sequential:
    """Convolutions with ReLUs, the last one small, so that training starts from its bias.

    The paper gives all of them a standard deviation of 0.01, made for 256 channels; with few, the signal would vanish.
    """
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [_conv(channels, channels, math.sqrt(2 / (9 * channels)), 0.0), nn.ReLU()]
    return nn.Sequential(*parts, _conv(channels, out, 0.01, bias))


def _conv(inside: int, outside: int, std: float, bias: float) -> nn.Conv2d:
    layer = nn.Conv2d(inside, outside, 3, padding=1)
    nn.init.normal_(layer.weight, std=std)
    assert layer.bias is not None
    nn.init.constant_(layer.bias, bias)
    return layer


class RetinaNet(nn.Module):
    """A detector; images are float (batch, 3, height, width) in [0, 1].

    ``levels`` are the first and the last level of the pyramid, ``channels`` its width, ``layers`` the convolutions of
    the class and the box network before the last one.

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
            raise ValueError(f"a detector has at least 1 class, not {classes}")
        self.backbone = ResNetFeatures(depth) if backbone is None else backbone
        first, last = levels
        top = self.backbone.first + len(self.backbone.channels) - 1
        if not self.backbone.first <= first <= top <= last:
            raise ValueError(
                f"the pyramid begins on a level from {self.backbone.first} to {top} and ends on {top} or later, "
                f"unlike {first} to {last}"
            )
        self.classes, self.levels = classes, levels
        self.anchors = Anchors() if anchors is None else anchors
        self.pyramid = Pyramid(self.backbone.channels[first - self.backbone.first :], channels, last - top)
        each = self.anchors.each_place
        self.class_net = _subnet(channels, layers, each * classes, -math.log((1 - PRIOR) / PRIOR))
        self.box_net = _subnet(channels, layers, each * 4, 0.0)
        # ImageNet's, as pretrained weights expect them.
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1), persistent=False)

    @classmethod
    def small(cls, classes: int) -> RetinaNet:
        """A detector that learns scenes of digits of 64 x 64 pixels in less than half a minute on one core.

        Its pyramid has levels 2 to 4. Its anchors, 8 to 50 pixels, are half again as high as wide, as digits are.
        """
        backbone, anchors = SmallFeatures((16, 32, 64)), Anchors(side=2.0, ratios=(1.5,))
        return cls(classes, channels=32, levels=(2, 4), layers=1, anchors=anchors, backbone=backbone)

    def forward(self, images: Tensor) -> Outputs:
        features = self.backbone((images - self.mean) / self.std)
        first, last = self.levels
        maps = self.pyramid(features[first - self.backbone.first :])
        logits = torch.cat([_by_anchor(self.class_net(level), self.classes) for level in maps], 1)
        differences = torch.cat([_by_anchor(self.box_net(level), 4) for level in maps], 1)
        shapes = [(level.shape[-2], level.shape[-1]) for level in maps]
        anchors = self.anchors.on(shapes, [2**level for level in range(first, last + 1)], images.device)
        counts = tuple(height * width * self.anchors.each_place for height, width in shapes)
        return Outputs(logits, differences, anchors, counts, (images.shape[-2], images.shape[-1]))


def _by_anchor(out: Tensor, numbers: int) -> Tensor:
    """(batch, anchors x numbers, height, width) to (batch, height x width x anchors, numbers)."""
    return out.permute(0, 2, 3, 1).reshape(out.shape[0], -1, numbers)
