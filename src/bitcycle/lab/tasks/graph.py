"""Node classification: cross entropy, Adam with a cosine learning-rate schedule.

A step uses the whole graph, or the sampled neighbourhoods of some training nodes. Evaluation uses the whole graph.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.lab.built_in_tasks import BUILT_IN
from bitcycle.lab.data.graph_batches import Adjacency, random_part, step_generator
from bitcycle.lab.data.graphs import GraphData, digits_graph, read_graph
from bitcycle.lab.data.official import find_official
from bitcycle.lab.data.splits import Split
from bitcycle.lab.models.graph_networks import GAT, GCN, SAGE, GraphNetwork
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.tasks.task import AUTO, Option, Task, Training, register_task

NETWORKS: dict[str, type[GraphNetwork]] = {"gcn": GCN, "sage": SAGE, "gat": GAT}
DEFAULT_SEEDS = 1024  # training nodes whose sampled neighbourhoods make a batch
CHUNK = 16_384  # nodes that are evaluated at a time


class GraphBatches(StrEnum):
    """What a training step uses."""

    FULL = "full"
    NEIGHBOURS = "neighbours"


@register_task
class GraphTask(Task):
    """Classification of the nodes of a graph from a few nodes with known classes."""

    name = "graph"
    about = "node classification"
    metric = "accuracy"
    bits = (1, 8)
    steps = 150
    evaluate_every = 15
    models = BUILT_IN["graph"].models
    options: ClassVar = {
        "aggregation": Option(
            "full", "messages between neighbours: full precision, or quantised", ("full", "quantized")
        ),
        "batches": Option(
            GraphBatches.FULL,
            f"a step uses the full graph, or the sampled neighbours of some training nodes ({DEFAULT_SEEDS}, or "
            "--batch-size; sage and gat only)",
            tuple(GraphBatches),
        ),
        "fan_out": Option("32", "neighbours sampled per node and layer, with batches=neighbours", kind=int),
        "layers": Option(AUTO, "number of graph convolutions; auto = 2 for small graphs, else 3", kind=int),
        "hidden": Option(AUTO, "units of hidden layers; auto = 64 for small graphs, else 512", kind=int),
    }
    embedded = "nearest-neighbour graph of scikit-learn's digits"
    official = "Planetoid raw files (FOLDER/cora, /citeseer, /pubmed), OGB's ogbn-arxiv and ogbn-products folders"

    def prepare(self, run: RunConfig) -> Training:
        options, name = self.chosen_options(run), self.chosen_model(run)
        batches = GraphBatches(options["batches"])
        if batches is GraphBatches.NEIGHBOURS and NETWORKS[name] is GCN:
            raise ValueError(
                "batches=neighbours is for the models sage and gat: gcn needs the degrees of nodes in the whole graph, "
                "which a sample does not have; choose another model"
            )
        data = read_graph(find_official(run.data)) if run.data else digits_graph()
        small = len(data.train) < 1000
        dropout = 0.5 if small else 0.2
        hidden = options["hidden"] or (64 if small else 512)
        layers = options["layers"] or (2 if small else 3)
        model = NETWORKS[name](data.x.shape[1], hidden, data.classes, layers, dropout, normalised=not small)
        recipe = Recipe.paper(bias=True, aggregation=options["aggregation"])
        rate, decay = (1e-2, 5e-4) if small else (1e-3, 0.0)
        optimizer = torch.optim.Adam(model.parameters(), rate, weight_decay=decay)
        if batches is GraphBatches.NEIGHBOURS:
            return NeighboursTraining(run, data, model, recipe, optimizer, (options["fan_out"],) * layers)
        return GraphTraining(run, data, model, recipe, optimizer)


class GraphTraining(Training):
    """Every step uses the whole graph, and is one epoch."""

    policy = "gnn"

    def __init__(
        self, run: RunConfig, data: GraphData, model: nn.Module, recipe: Recipe, optimizer: torch.optim.Optimizer
    ) -> None:
        self.data, self.model, self.recipe, self.optimizer, self.seed = data, model, recipe, optimizer, run.seed

    def learning_rate(self, step: int, total: int) -> float:
        """Return a factor that falls from 1 to 0.1 along a cosine."""
        return 0.1 + 0.9 * (1 + math.cos(math.pi * step / total)) / 2

    def loss(self, step: int) -> Tensor:
        rows = self.data.train
        return F.cross_entropy(self.model(*self._whole_graph())[rows], self.data.y[rows].to(self.device))

    @torch.no_grad()
    def evaluate(self, split: Split) -> float:
        rows = self.data[split]
        predicted = self._logits()[rows].argmax(1).cpu()
        return float((predicted == self.data.y[rows]).float().mean())

    @torch.no_grad()
    def example_losses(self, split: Split) -> Tensor:
        """Return the cross entropy of each node."""
        rows = self.data[split]
        return F.cross_entropy(self._logits()[rows].cpu(), self.data.y[rows], reduction="none")

    def example(self) -> tuple[Any, ...]:
        return self._whole_graph()

    def _logits(self) -> Tensor:
        """Return the logits of all nodes."""
        logits: Tensor = self.model(*self._whole_graph())
        return logits

    def _whole_graph(self) -> tuple[Tensor, Tensor]:
        return self.data.x.to(self.device), self.data.edges.to(self.device)


class NeighboursTraining(GraphTraining):
    """The training nodes are divided at random in every epoch; a step samples the neighbourhoods of one part.

    Evaluation computes layer by layer, in chunks of nodes, with all neighbours of each node.
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
        self.steps_per_epoch = -(-len(data.train) // (run.batch_size or DEFAULT_SEEDS))

    def loss(self, step: int) -> Tensor:
        nodes = self._seeds(step)
        return F.cross_entropy(self.model(*self._neighbourhood(nodes, step)), self.data.y[nodes].to(self.device))

    def example(self) -> tuple[Any, ...]:
        return self._neighbourhood(self._seeds(0), step=0)

    def _logits(self) -> Tensor:
        x = self.data.x
        for index in range(len(self.fan_outs)):
            outs = []
            for nodes in torch.arange(len(x)).split(CHUNK):
                neighbourhood = self.adjacency.complete(nodes)
                sources = x[neighbourhood.nodes].to(self.device)
                edges = neighbourhood.edges[0].to(self.device)
                outs.append(self.model.layer(index, (sources, sources[: len(nodes)]), edges).cpu())
            x = torch.cat(outs)
        return x

    def _seeds(self, step: int) -> Tensor:
        return self.data.train[random_part(len(self.data.train), self.steps_per_epoch, self.seed, step)]

    def _neighbourhood(self, nodes: Tensor, step: int) -> tuple[Tensor, tuple[Tensor, ...], tuple[int, ...]]:
        sample = self.adjacency.sampled(nodes, self.fan_outs, step_generator(self.seed, step))
        edges = tuple(layer.to(self.device) for layer in sample.edges)
        return self.data.x[sample.nodes].to(self.device), edges, sample.targets
