"""Node classification: cross entropy on logits, Adam with the learning rate falling along a cosine.

A step sees the whole graph, a random part of it, or the sampled neighbourhood of some nodes; the metric is that of the
whole graph.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.experiments.data.errors import DataError
from bitcycle.experiments.data.graph_batches import Adjacency, dealt, generator_of
from bitcycle.experiments.data.graphs import GraphData, digits_graph, read_ogb, read_planetoid
from bitcycle.experiments.data.official import find_official
from bitcycle.experiments.models.graph_networks import GAT, GCN, SAGE, GraphNetwork
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks.task import Option, Task, Training, register_task

NETWORKS: dict[str, type[GraphNetwork]] = {"gcn": GCN, "sage": SAGE, "gat": GAT}
PARTS = 4
FEW = 1024  # nodes whose neighbourhoods make a batch
CHUNK = 16_384  # nodes evaluated at a time


@register_task
class GraphTask(Task):
    """Classes of the nodes of a graph, of which a few are known."""

    name = "graph"
    about = "node classification"
    metric = "accuracy"
    bits = (1, 8)
    steps = 150
    evaluate_every = 15
    models = ("gcn", "sage", "gat")
    options: ClassVar = {
        "aggregation": Option(
            "full", "sums over neighbours: full precision, or quantised messages", ("full", "quantized")
        ),
        "batches": Option(
            "full",
            f"a step sees the full graph, a random part of it (a quarter, or --batch-size nodes), or the sampled "
            f"neighbours of some training nodes ({FEW}, or --batch-size; sage and gat)",
            ("full", "parts", "neighbours"),
        ),
        "fan_out": Option("32", "neighbours sampled for each node in each layer, with batches=neighbours"),
        "layers": Option("auto", "number of graph convolutions; auto: 2 in small graphs, else 3"),
        "hidden": Option("auto", "units between them; auto: 64 in small graphs, else 512"),
    }
    embedded = "nearest-neighbour graph of scikit-learn's digits"
    official = "Planetoid raw files (FOLDER/cora, /citeseer, /pubmed), OGB's ogbn-arxiv and ogbn-products folders"

    def prepare(self, run: RunConfig) -> Training:
        options, name = self.chosen_options(run), self.chosen_model(run)
        if options["batches"] == "neighbours" and name == "gcn":
            raise ValueError(
                "batches=neighbours is for the models sage and gat: gcn divides by degrees in the whole graph, which a "
                "sample does not have; choose another model, or batches=parts"
            )
        data = read_graph(find_official(run.data)) if run.data else digits_graph()
        small = len(data.train) < 1000
        dropout = 0.5 if small else 0.2
        hidden = _whole("hidden", options["hidden"], auto=64 if small else 512)
        layers = _whole("layers", options["layers"], auto=2 if small else 3)
        model = NETWORKS[name](data.x.shape[1], hidden, data.classes, layers, dropout, normalised=not small)
        recipe = Recipe(bias=True, aggregation=options["aggregation"])  # type: ignore[arg-type]
        rate, decay = (1e-2, 5e-4) if small else (1e-3, 0.0)
        optimizer = torch.optim.Adam(model.parameters(), rate, weight_decay=decay)
        match options["batches"]:
            case "parts":
                return PartsTraining(run, data, model, recipe, optimizer)
            case "neighbours":
                fan_outs = (_whole("fan_out", options["fan_out"]),) * layers
                return NeighboursTraining(run, data, model, recipe, optimizer, fan_outs)
        return GraphTraining(run, data, model, recipe, optimizer)


class GraphTraining(Training):
    """Every step is an epoch over the whole graph."""

    policy = "gnn"

    def __init__(
        self, run: RunConfig, data: GraphData, model: nn.Module, recipe: Recipe, optimizer: torch.optim.Optimizer
    ) -> None:
        self.data, self.model, self.recipe, self.optimizer, self.seed = data, model, recipe, optimizer, run.seed

    def learning_rate(self, step: int, total: int) -> float:
        """From 1 down to a tenth along a cosine."""
        return 0.1 + 0.9 * (1 + math.cos(math.pi * step / total)) / 2

    def loss(self, step: int) -> Tensor:
        rows = self.data.train
        return F.cross_entropy(self.model(*self._whole_graph())[rows], self.data.y[rows].to(self.device))

    @torch.no_grad()
    def evaluate(self, part: str) -> float:
        rows: Tensor = getattr(self.data, part)
        found = self._logits()[rows].argmax(1).cpu()
        return float((found == self.data.y[rows]).float().mean())

    def example(self) -> tuple[Any, ...]:
        return self._whole_graph()

    def _logits(self) -> Tensor:
        """Of all nodes."""
        logits: Tensor = self.model(*self._whole_graph())
        return logits

    def _whole_graph(self) -> tuple[Tensor, Tensor]:
        return self.data.x.to(self.device), self.data.edges.to(self.device)


class PartsTraining(GraphTraining):
    """The nodes are dealt out anew in every epoch; a step sees one part and the edges within it.

    Evaluation sees the whole graph at once, so the graph has to fit into memory.
    """

    def __init__(self, run: RunConfig, data: GraphData, *others: Any) -> None:
        super().__init__(run, data, *others)
        self.adjacency = Adjacency(data.edges, len(data.y))
        self.steps_per_epoch = -(-len(data.y) // run.batch_size) if run.batch_size else min(PARTS, len(data.y))
        self.is_trained = torch.zeros(len(data.y), dtype=torch.bool)
        self.is_trained[data.train] = True

    def loss(self, step: int) -> Tensor:
        nodes = self._nodes(step)
        rows = self.is_trained[nodes]
        logits, labels = self.model(*self._part(nodes))[rows], self.data.y[nodes[rows]].to(self.device)
        # A small part may have no training node at all, and then nothing to teach.
        return F.cross_entropy(logits, labels, reduction="sum") / max(1, len(labels))

    def example(self) -> tuple[Any, ...]:
        return self._part(self._nodes(step=0))

    def _nodes(self, step: int) -> Tensor:
        return dealt(len(self.data.y), self.steps_per_epoch, self.seed, step)

    def _part(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        return self.data.x[nodes].to(self.device), self.adjacency.induced(nodes).to(self.device)


class NeighboursTraining(GraphTraining):
    """The training nodes are dealt out anew in every epoch; a step samples what some of them need for their logits.

    Evaluation goes layer by layer over all nodes with all of their neighbours, some nodes at a time.
    """

    model: GraphNetwork

    def __init__(
        self,
        run: RunConfig,
        data: GraphData,
        model: GraphNetwork,
        recipe: Recipe,
        optimizer: torch.optim.Optimizer,
        fan_outs: tuple[int, ...],
    ) -> None:
        super().__init__(run, data, model, recipe, optimizer)
        self.fan_outs = fan_outs
        self.adjacency = Adjacency(data.edges, len(data.y))
        self.steps_per_epoch = -(-len(data.train) // (run.batch_size or FEW))

    def loss(self, step: int) -> Tensor:
        few = self._few(step)
        return F.cross_entropy(self.model(*self._neighbourhood(few, step)), self.data.y[few].to(self.device))

    def example(self) -> tuple[Any, ...]:
        return self._neighbourhood(self._few(0), step=0)

    def _logits(self) -> Tensor:
        x = self.data.x
        for place in range(len(self.fan_outs)):
            outs = []
            for nodes in torch.arange(len(x)).split(CHUNK):
                found = self.adjacency.complete(nodes)
                sources = x[found.nodes].to(self.device)
                edges = found.edges[0].to(self.device)
                outs.append(self.model.layer(place, (sources, sources[: len(nodes)]), edges).cpu())
            x = torch.cat(outs)
        return x

    def _few(self, step: int) -> Tensor:
        return self.data.train[dealt(len(self.data.train), self.steps_per_epoch, self.seed, step)]

    def _neighbourhood(self, few: Tensor, step: int) -> tuple[Tensor, tuple[Tensor, ...], tuple[int, ...]]:
        found = self.adjacency.sampled(few, self.fan_outs, generator_of(self.seed, step))
        edges = tuple(layer.to(self.device) for layer in found.edges)
        return self.data.x[found.nodes].to(self.device), edges, found.targets


def read_graph(path: Path) -> GraphData:
    """An OGB folder; or a Planetoid data set: a folder with the raw files ``ind.NAME.*`` of one, or FOLDER/NAME."""
    folder, name = (path, "") if path.is_dir() else (path.parent, path.name)
    found = sorted({file.name.split(".")[1] for file in folder.glob("ind.*.*")})
    if name in ("cora", "citeseer", "pubmed") or name in found:
        return read_planetoid(folder, name)
    if len(found) == 1 and not name:
        return read_planetoid(folder, found[0])
    if found:
        raise DataError(
            f"{folder} holds the Planetoid data sets {', '.join(found)}: name one, as in {folder / found[0]}"
        )
    return read_ogb(path)


def _whole(name: str, text: str, auto: int | None = None) -> int:
    if text == "auto" and auto is not None:
        return auto
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} is a whole number of 1 or more, not {text!r}")
    return int(text)
