"""The built-in models by name, each with example inputs of the shape on which it is trained."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bitcycle._support.names import nearest

if TYPE_CHECKING:
    from torch import nn

    ModelAndInputs = tuple[nn.Module, Any]

Builder = Callable[..., "ModelAndInputs"]
"""Builds a model and example inputs for a batch size. It loads torch, which the names of the models do not need."""


def _image_model(module: str, name: str, size: int, *arguments: Any, batch: int, **options: Any) -> ModelAndInputs:
    import torch

    model = getattr(import_module(f"bitcycle.lab.models.{module}"), name)(*arguments, **options)
    return model, torch.zeros(batch, 3, size, size)


def _gcn_arxiv(batch: int) -> ModelAndInputs:
    """OGBN-Arxiv: 169,343 nodes, 1,166,243 citations in both directions, and self-loops."""
    import torch

    from bitcycle.lab.models.graph_networks import GCN

    nodes, citations = 169_343, 1_166_243
    edges = torch.zeros(2, 2 * citations + nodes, dtype=torch.long)
    return GCN(128, 512, 40, normalize=False, add_self_loops=False), (torch.zeros(nodes, 128), edges)


def _lstm_ptb(batch: int) -> ModelAndInputs:
    """Penn Treebank: 800 units, 35 words at a time, a vocabulary of 10,000."""
    import torch

    from bitcycle.lab.models.language_models import LSTMLanguageModel

    return LSTMLanguageModel(10_000, 800), torch.zeros(35, batch, dtype=torch.long)


_mobilenet = partial(_image_model, "mobilenet_v2", "MobileNetV2")
CATALOGUE: dict[str, Builder] = {
    **{
        f"cifar-resnet-{depth}": partial(_image_model, "resnets", "CifarResNet", 32, depth)
        for depth in (8, 20, 38, 74, 110, 152)
    },
    **{
        f"imagenet-resnet-{depth}": partial(_image_model, "resnets", "ImageNetResNet", 224, depth)
        for depth in (18, 34, 50, 101)
    },
    "mobilenet-v2-cifar": partial(_mobilenet, 32, 10, small_images=True),
    "mobilenet-v2-imagenet": partial(_mobilenet, 224, 1000),
    **{
        f"retinanet-{depth}": partial(_image_model, "retinanet", "RetinaNet", 512, 20, depth)
        for depth in (18, 34, 50, 101)
    },
    "gcn-arxiv": _gcn_arxiv,
    "lstm-ptb": _lstm_ptb,
}


def build(name: str, batch: int = 1, device: str = "meta") -> ModelAndInputs:
    """Build a model of the catalogue.

    Args:
        name: A name of :data:`CATALOGUE`.
        batch: Batch size of the example inputs.
        device: Where to create model and inputs; on ``meta``, no memory is allocated.

    Returns:
        The model and example inputs.

    Raises:
        ValueError: If there is no model of this name.

    Example:
        >>> model, inputs = build("cifar-resnet-20", batch=2)
        >>> inputs.shape
        torch.Size([2, 3, 32, 32])
    """
    import torch

    if name not in CATALOGUE:
        raise ValueError(f"unknown model {name!r}; {nearest(name, CATALOGUE)}")
    with torch.device(device):
        return CATALOGUE[name](batch=batch)
