"""MobileNetV2 (Sandler et al., 2018): inverted residuals with depthwise convolutions."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

# Expansion, channels, blocks, stride of the first block, and its stride for 32 x 32 images.
STAGES = (
    (1, 16, 1, 1, 1),
    (6, 24, 2, 2, 1),
    (6, 32, 3, 2, 2),
    (6, 64, 4, 2, 2),
    (6, 96, 3, 1, 1),
    (6, 160, 3, 2, 2),
    (6, 320, 1, 1, 1),
)


def _unit(in_channels: int, out_channels: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out_channels), nn.ReLU6())


class InvertedResidual(nn.Module):
    """Expansion by a 1 x 1 convolution, a depthwise convolution, and a linear 1 x 1 projection."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = in_channels * expansion
        expand = [] if expansion == 1 else [_unit(in_channels, hidden, 1)]
        self.layers = nn.Sequential(
            *expand,
            _unit(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.residual = stride == 1 and in_channels == out_channels

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 of width 1.

    Args:
        classes: Number of classes.
        small_images: Whether to use the strides for 32 x 32 images.

    >>> sum(p.numel() for p in MobileNetV2().parameters())
    3504872
    """

    def __init__(self, classes: int = 1000, small_images: bool = False) -> None:
        super().__init__()
        blocks: list[nn.Module] = [_unit(3, 32, 3, 1 if small_images else 2)]
        channels = 32
        for expansion, width, count, stride, small_stride in STAGES:
            for index in range(count):
                first_stride = small_stride if small_images else stride
                blocks.append(InvertedResidual(channels, width, first_stride if index == 0 else 1, expansion))
                channels = width
        self.features = nn.Sequential(*blocks, _unit(channels, 1280, 1))
        self.fc = nn.Linear(1280, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.dropout(self.features(x).mean((2, 3)), 0.2, self.training))
