"""Backbones of detectors: networks that return features at several strides, pretrained weights, frozen batch norms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bitcycle._support.extras import need
from bitcycle.lab.models.resnets import BasicBlock, ImageNetResNet, init_convolutions


class ResNetFeatures(ImageNetResNet):
    """A residual network without its classifier. It returns the outputs of its stages, at strides 4 to 32."""

    first = 2
    """The pyramid level of the first output; level l has a stride of 2^l pixels."""

    def __init__(self, depth: int) -> None:
        super().__init__(depth, classes=1)
        self.channels = tuple(self.fc.in_features // 2**i for i in (3, 2, 1, 0))
        del self.fc

    def forward(self, x: Tensor) -> list[Tensor]:  # type: ignore[override]
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        outs = []
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
            outs.append(x)
        return outs


class SmallFeatures(nn.Module):
    """A stem and one basic block per stage, for images of about 64 pixels. The outputs have strides 2, 4, 8, ..."""

    first = 1

    def __init__(self, channels: tuple[int, ...]) -> None:
        super().__init__()
        self.channels = channels
        self.conv1 = nn.Conv2d(3, channels[0], 3, 2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels[0])
        self.relu = nn.ReLU()
        in_channels = (channels[0], *channels)
        self.stages = nn.ModuleList(
            BasicBlock(inputs, width, 2 if index else 1)
            for index, (inputs, width) in enumerate(zip(in_channels, channels, strict=False))
        )
        init_convolutions(self)

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.relu(self.bn1(self.conv1(x)))
        outs = []
        for stage in self.stages:
            x = stage(x)
            outs.append(x)
        return outs


class FrozenBatchNorm2d(nn.BatchNorm2d):
    """A batch norm that is always in evaluation mode."""

    def train(self, mode: bool = True) -> FrozenBatchNorm2d:
        return super().train(False)


def freeze_batch_norm(model: nn.Module) -> None:
    """Keep the statistics of all batch norms fixed, even after ``model.train()``. Scale and shift are still trained.

    >>> layer = nn.BatchNorm2d(3)
    >>> freeze_batch_norm(layer)
    >>> layer.train().training
    False
    """
    for module in model.modules():
        if type(module) is nn.BatchNorm2d:
            module.__class__ = FrozenBatchNorm2d
            module.eval()


def load_backbone(backbone: nn.Module, path: str | Path) -> None:
    """Load the weights of a pretrained residual network.

    Args:
        backbone: The network, with torchvision's names, which :class:`ImageNetResNet` has too.
        path: A torch or safetensors file. The weights of the classifier ``fc`` are ignored.

    Raises:
        ValueError: If the file cannot be read or does not fit the network.
    """
    weights = _weights(Path(path))
    expected = backbone.state_dict()
    given = {name.removeprefix("module."): value for name, value in weights.items()}
    given = {name: value for name, value in given.items() if not name.startswith("fc.")}
    # Files of old versions of torch lack these counters.
    counters = {name: value for name, value in expected.items() if name.endswith("num_batches_tracked")}
    given = counters | given
    problems = [f"{name} is missing" for name in expected if name not in given]
    problems += [f"{name} is unknown" for name in given if name not in expected]
    problems += [
        f"{name} is {tuple(given[name].shape)} instead of {tuple(expected[name].shape)}"
        for name in expected
        if name in given and given[name].shape != expected[name].shape
    ]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ValueError(f"{path} does not fit the backbone: {'; '.join(problems[:3])}{more}")
    backbone.load_state_dict(given)


def _weights(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    try:
        if path.suffix == ".safetensors":
            content: Any = need("safetensors.torch", "text", "reading safetensors").load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except ImportError:
        raise
    except Exception as error:  # neither documents what it raises for a damaged file
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} cannot be read as weights: {reason}") from None
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"{path} does not hold a dictionary of weights")
    return content
