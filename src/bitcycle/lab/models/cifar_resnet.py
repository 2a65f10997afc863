"""Residual networks for 32 x 32 images: three stages of basic blocks with 16, 32 and 64 channels (He et al., 2016)."""

from __future__ import annotations

from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, projected by a 1 x 1 convolution where the shape changes."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class CifarResNet(nn.Module):
    """A residual network with ``6 n + 2`` layers: 8, 20, 38, 74, 110, 152, ...

    Args:
        depth: Number of layers.
        classes: Number of classes.
        channels: Channels of the images.

    Raises:
        ValueError: If the depth is not ``6 n + 2``.

    >>> sum(p.numel() for p in CifarResNet(20).parameters() if p.dim() > 1)
    270896
    """

    def __init__(self, depth: int, classes: int = 10, channels: int = 3) -> None:
        super().__init__()
        if depth < 8 or (depth - 2) % 6:
            raise ValueError(
                f"the depth of a CIFAR ResNet must be 6 n + 2, such as 8, 20, 38, 74, 110 or 152, got {depth}"
            )
        blocks = (depth - 2) // 6
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        self.layer1 = self._stage(16, 16, blocks, stride=1)
        self.layer2 = self._stage(16, 32, blocks, stride=2)
        self.layer3 = self._stage(32, 64, blocks, stride=2)
        self.fc = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @staticmethod
    def _stage(in_channels: int, out_channels: int, blocks: int, stride: int) -> nn.Sequential:
        later = (BasicBlock(out_channels, out_channels, 1) for _ in range(blocks - 1))
        return nn.Sequential(BasicBlock(in_channels, out_channels, stride), *later)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))
