"""Residual networks (He et al., 2016) for 32 x 32 and for 224 x 224 images."""

from __future__ import annotations

from torch import Tensor, nn

BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


def _shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Module:
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels))


def init_convolutions(model: nn.Module) -> None:
    """Draw the weights of all convolutions as He et al. (2015) do for layers with a ReLU."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, projected by a 1 x 1 convolution where the shape changes.

    Args:
        in_channels: Channels of the input.
        width: Channels of both convolutions.
        stride: Stride of the first convolution.
        shortcut: Name of the projection: noise depends on the names of modules.
    """

    expansion = 1

    def __init__(self, in_channels: int, width: int, stride: int, shortcut: str = "downsample") -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.shortcut_name = shortcut
        self.add_module(shortcut, _shortcut(in_channels, width, stride))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + self.get_submodule(self.shortcut_name)(x))


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions and a shortcut. The middle one is narrow and has the stride."""

    expansion = 4

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU()
        self.downsample = _shortcut(in_channels, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.relu(self.bn3(self.conv3(out)) + self.downsample(x))


class CifarResNet(nn.Module):
    """Three stages of basic blocks with 16, 32 and 64 channels: ``6 n + 2`` layers, as 8, 20, 38, 74, 110 or 152.

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
        init_convolutions(self)

    @staticmethod
    def _stage(in_channels: int, out_channels: int, blocks: int, stride: int) -> nn.Sequential:
        later = (BasicBlock(out_channels, out_channels, 1, "shortcut") for _ in range(blocks - 1))
        return nn.Sequential(BasicBlock(in_channels, out_channels, stride, "shortcut"), *later)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class ImageNetResNet(nn.Module):
    """A stem, four stages of blocks with 64 to 512 channels, and a classifier. Parameters have torchvision's names.

    Args:
        depth: 18 or 34 layers (basic blocks), 50 or 101 (bottlenecks).
        classes: Number of classes.

    Raises:
        ValueError: If there is no network of this depth.

    >>> sum(p.numel() for p in ImageNetResNet(18).parameters())
    11689512
    """

    def __init__(self, depth: int, classes: int = 1000) -> None:
        super().__init__()
        if depth not in BLOCKS:
            raise ValueError(
                f"the depth of an ImageNet ResNet must be one of {', '.join(map(str, BLOCKS))}, got {depth}"
            )
        block: type[BasicBlock] | type[Bottleneck] = Bottleneck if depth >= 50 else BasicBlock
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        channels, stages = 64, []
        for stage, blocks in enumerate(BLOCKS[depth]):
            width, layers = 64 * 2**stage, []
            for index in range(blocks):
                layers.append(block(channels, width, 2 if stage and index == 0 else 1))
                channels = width * block.expansion
            stages.append(nn.Sequential(*layers))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(channels, classes)
        init_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))
