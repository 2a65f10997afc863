"""The built-in models by name, each with inputs of the shape it is trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bitcycle._support.names import nearest

Built = tuple[nn.Module, Any]
"""A model and example inputs."""


def _cifar(depth: int) -> Callable[[int], Built]:
    def build(batch: int) -> Built:
        from bitcycle.experiments.models.cifar_resnet import CifarResNet

        return CifarResNet(depth), torch.zeros(batch, 3, 32, 32)

    return build


def _imagenet(depth: int) -> Callable[[int], Built]:
    def build(batch: int) -> Built:
        from bitcycle.experiments.models.imagenet_resnet import ImageNetResNet

        return ImageNetResNet(depth), torch.zeros(batch, 3, 224, 224)

    return build


def _mobilenet(small: bool) -> Callable[[int], Built]:
    def build(batch: int) -> Built:
        from bitcycle.experiments.models.mobilenet_v2 import MobileNetV2

        size = 32 if small else 224
        return MobileNetV2(10 if small else 1000, small_images=small), torch.zeros(batch, 3, size, size)

    return build


def _gcn_arxiv(batch: int) -> Built:
    """The graph network of OGBN-Arxiv: 169,343 nodes, 1,166,243 citations used in both directions, self-loops."""
    from bitcycle.experiments.models.graph_networks import GCN

    nodes, citations = 169_343, 1_166_243
    edges = torch.zeros(2, 2 * citations + nodes, dtype=torch.long)
    return GCN(128, 512, 40, normalize=False, add_self_loops=False), (torch.zeros(nodes, 128), edges)


def _lstm_ptb(batch: int) -> Built:
    """The language model of Penn Treebank: 800 units, 35 words at a time, vocabulary 10,000."""
    from bitcycle.experiments.models.lstm_language import LSTMLanguageModel

    return LSTMLanguageModel(10_000, 800), torch.zeros(35, batch, dtype=torch.long)


def _retinanet(depth: int) -> Callable[[int], Built]:
    def build(batch: int) -> Built:
        from bitcycle.experiments.models.retinanet import RetinaNet

        return RetinaNet(20, depth), torch.zeros(batch, 3, 512, 512)

    return build


CATALOGUE: dict[str, Callable[[int], Built]] = {
    **{f"cifar-resnet-{depth}": _cifar(depth) for depth in (8, 20, 38, 74, 110, 152)},
    **{f"imagenet-resnet-{depth}": _imagenet(depth) for depth in (18, 34, 50, 101)},
    "mobilenet-v2-cifar": _mobilenet(small=True),
    "mobilenet-v2-imagenet": _mobilenet(small=False),
    **{f"retinanet-{depth}": _retinanet(depth) for depth in (18, 34, 50, 101)},
    "gcn-arxiv": _gcn_arxiv,
    "lstm-ptb": _lstm_ptb,
}


def build(name: str, batch: int = 1, device: str = "meta") -> Built:
    """A built-in model and example inputs; on ``meta`` nothing is allocated.

    >>> model, inputs = build("cifar-resnet-20", batch=2)
    >>> inputs.shape
    torch.Size([2, 3, 32, 32])
    """
    if name not in CATALOGUE:
        raise ValueError(f"unknown model {name!r}; {nearest(name, CATALOGUE)}")
    with torch.device(device):
        return CATALOGUE[name](batch)
