"""Pretrained backbones of detectors: load their weights, freeze their statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bitcycle._support.extras import need
from bitcycle.experiments.models.retinanet import RetinaNet


class FrozenBatchNorm2d(nn.BatchNorm2d):
    """A batch norm that stays in evaluation mode."""

    def train(self, mode: bool = True) -> FrozenBatchNorm2d:
        return super().train(False)


def freeze_batch_norm(model: nn.Module) -> None:
    """Keep the statistics of all batch norms as they are, through ``model.train()`` too; scale and shift still learn.

    >>> layer = nn.BatchNorm2d(3)
    >>> freeze_batch_norm(layer)
    >>> layer.train().training
    False
    """
    for module in model.modules():
        if type(module) is nn.BatchNorm2d:
            module.__class__ = FrozenBatchNorm2d
            module.eval()


def load_backbone(model: RetinaNet, path: str | Path) -> None:
    """Put the weights of a residual network into a detector's backbone, from a torch or a safetensors file.

    The names are torchvision's, which :class:`ImageNetResNet` shares; the classifier ``fc`` is left out.
    """
    weights = _weights(Path(path))
    own = model.backbone.state_dict()
    given = {name.removeprefix("module."): value for name, value in weights.items()}
    given = {name: value for name, value in given.items() if not name.startswith("fc.")}
    # Files of old versions of torch do not have these counters.
    counters = {name: value for name, value in own.items() if name.endswith("num_batches_tracked")}
    given = counters | given
    wrong = [f"{name} is missing" for name in own if name not in given]
    wrong += [f"{name} has no place" for name in given if name not in own]
    wrong += [
        f"{name} is {tuple(given[name].shape)} instead of {tuple(own[name].shape)}"
        for name in own
        if name in given and given[name].shape != own[name].shape
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(f"{path} does not fit the backbone: {'; '.join(wrong[:3])}{more}")
    model.backbone.load_state_dict(given)


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
    except Exception as error:  # what these two raise for a broken file is not documented
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} cannot be read as weights: {reason}") from None
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"{path} does not hold weights by name")
    return content
