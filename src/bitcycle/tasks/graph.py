"""Node classification on a whole graph: cross entropy on logits, Adam with the learning rate falling along a cosine."""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.data.graphs import GraphData, digits_graph, read_ogb, read_planetoid
from bitcycle.models.graph_networks import GAT, GCN, SAGE
from bitcycle.recipe import Recipe
from bitcycle.runs import Run
from bitcycle.tasks.task import Option, Task, Training, register_task

NETWORKS: dict[str, type[nn.Module]] = {"gcn": GCN, "sage": SAGE, "gat": GAT}


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
    }
    embedded = "nearest-neighbour graph of scikit-learn's digits"
    official = "Planetoid raw files (FOLDER/cora, /citeseer, /pubmed), OGB's ogbn-arxiv and ogbn-products folders"

    def prepare(self, run: Run) -> Training:
        data = read_graph(run.data) if run.data else digits_graph()
        small = len(data.train) < 1000
        hidden, dropout = (64, 0.5) if small else (512, 0.2)
        network = NETWORKS[self.chosen_model(run)]
        layers = 2 if small else 3
        model = network(data.x.shape[1], hidden, data.classes, layers, dropout, normalised=not small)
        recipe = Recipe(bias=True, aggregation=self.chosen_options(run)["aggregation"])  # type: ignore[arg-type]
        return GraphTraining(data, model, recipe, rate=1e-2 if small else 1e-3, decay=5e-4 if small else 0.0)


class GraphTraining(Training):
    """Every step is an epoch over the whole graph."""

    policy = "gnn"

    def __init__(self, data: GraphData, model: nn.Module, recipe: Recipe, rate: float, decay: float) -> None:
        self.model, self.data, self.recipe = model, data, recipe
        self.optimizer = torch.optim.Adam(model.parameters(), rate, weight_decay=decay)

    def learning_rate(self, step: int, total: int) -> float:
        """From 1 down to a tenth along a cosine."""
        return 0.1 + 0.9 * (1 + math.cos(math.pi * step / total)) / 2

    def loss(self, step: int) -> Tensor:
        rows = self.data.train
        return F.cross_entropy(self.model(*self.example())[rows], self.data.y[rows].to(self.device))

    @torch.no_grad()
    def evaluate(self, part: str) -> float:
        rows: Tensor = getattr(self.data, part)
        found = self.model(*self.example())[rows].argmax(1).cpu()
        return float((found == self.data.y[rows]).float().mean())

    def example(self) -> tuple[Tensor, Tensor]:
        return self.data.x.to(self.device), self.data.edges.to(self.device)


def read_graph(folder: str) -> GraphData:
    """An OGB folder, or a Planetoid data set given as FOLDER/NAME with the raw files ``ind.NAME.*`` in FOLDER."""
    path = Path(folder)
    if path.name in ("cora", "citeseer", "pubmed") and not path.exists():
        return read_planetoid(path.parent, path.name)
    return read_ogb(path)
