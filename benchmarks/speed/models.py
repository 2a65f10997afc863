"""The models whose training steps are measured, each with a batch of random data and a loss."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.lab.models.graph_networks import GCN
from bitcycle.lab.models.language_models import LSTMLanguageModel
from bitcycle.lab.models.resnets import CifarResNet


class Workload(NamedTuple):
    """A model, and the loss of a model of this kind on a fixed batch."""

    model: nn.Module
    loss: Callable[[nn.Module], Tensor]


class Model(NamedTuple):
    """A model that can be measured."""

    title: str
    """Its name in tables."""
    make: Callable[..., Workload]
    """Makes the full or the small (``quick``) version. Transformers also take whether their projections are layers."""


def make(name: str, quick: bool = False, of_linear_layers: bool = False) -> Workload:
    """Return a model with its batch, always the same one.

    Args:
        name: A name of :data:`MODELS`.
        quick: Return a small version.
        of_linear_layers: Return a Transformer whose projections are linear layers, see :class:`ProjectedAttention`.
    """
    projected = [True] if of_linear_layers and name.startswith("transformer") else []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MODELS[name].make(quick, *projected)


def _images(depth: int, batch: int, channels: int, size: int) -> Workload:
    images, labels = torch.randn(batch, channels, size, size), torch.randint(0, 10, (batch,))
    return Workload(CifarResNet(depth, 10, channels), lambda model: F.cross_entropy(model(images), labels))


def _resnet_20(quick: bool, memory_format: torch.memory_format = torch.contiguous_format) -> Workload:
    model, loss = _images(8, 2, 3, 8) if quick else _images(20, 64, 3, 32)
    return Workload(model.to(memory_format=memory_format), loss)  # type: ignore[call-overload]


def _lstm(quick: bool) -> Workload:
    vocabulary, hidden, length, batch = (20, 8, 3, 2) if quick else (2000, 200, 35, 20)
    tokens = torch.randint(0, vocabulary, (length + 1, batch))

    def loss(model: nn.Module) -> Tensor:
        logits, _ = model(tokens[:-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[1:].flatten())

    return Workload(LSTMLanguageModel(vocabulary, hidden, dropout=0.0), loss)


def _gcn(quick: bool, sparse: bool = False) -> Workload:
    """Return a graph network. As a normalised sparse matrix, the graph is aggregated by one sparse product."""
    width, nodes, edges = (8, 20, 60) if quick else (256, 20_000, 100_000)
    features, ends = torch.randn(nodes, width), torch.randint(0, nodes, (2, edges))
    labels = torch.randint(0, width, (nodes,))
    model = GCN(width, width, width, layers=2, dropout=0.0)
    graph = ends
    if sparse:
        from torch_geometric.nn.conv.gcn_conv import gcn_norm
        from torch_geometric.utils import to_torch_csr_tensor

        with warnings.catch_warnings(action="ignore"):  # torch calls its sparse matrices a beta
            graph = to_torch_csr_tensor(*gcn_norm(ends, num_nodes=nodes), size=nodes)
        for module in model.modules():
            if "normalize" in vars(module):
                vars(module)["normalize"] = False
    return Workload(model, lambda model: F.cross_entropy(model(features, graph), labels))


class ProjectedAttention(nn.Module):
    """Self-attention with linear layers as its projections: what ``nn.MultiheadAttention`` computes.

    Libraries that replace linear layers do not reach the projections of ``nn.MultiheadAttention``.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, *_: Tensor, **__: object) -> tuple[Tensor, None]:
        batch, length, width = x.shape
        split = self.query_key_value(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind()
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width)), None


def _transformer(quick: bool, projected: bool = False, *, width: int, layers: int) -> Workload:
    width, layers, heads, batch, length = (16, 1, 2, 2, 8) if quick else (width, layers, 8, 8, 128)
    x, wanted = torch.randn(2, batch, length, width)
    make_layer = partial(nn.TransformerEncoderLayer, width, heads, 4 * width, dropout=0.0, batch_first=True)
    model = nn.Sequential(*(make_layer() for _ in range(layers)))
    for layer in model if projected else ():
        layer.self_attn = ProjectedAttention(width, heads)
    return Workload(model, lambda model: F.mse_loss(model(x), wanted))


MODELS: Mapping[str, Model] = {
    "resnet-20": Model("ResNet-20", _resnet_20),
    "resnet-20-channels-last": Model(
        "ResNet-20, channels last", partial(_resnet_20, memory_format=torch.channels_last)
    ),
    "transformer-256": Model("Transformer 256", partial(_transformer, width=256, layers=4)),
    "transformer-512": Model("Transformer 512", partial(_transformer, width=512, layers=2)),
    "lstm": Model("LSTM 200", _lstm),
    "gcn": Model("GCN 256", _gcn),
    "gcn-sparse": Model("GCN 256, sparse", partial(_gcn, sparse=True)),
    "resnet-8": Model("ResNet-8", lambda quick: _images(8, 2 if quick else 128, 1, 8)),
}
