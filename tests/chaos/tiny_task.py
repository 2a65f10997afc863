"""The task of the disturbed studies: so small that a study takes a tenth of a second, with a state that must resume."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from bitcycle.tasks import LoaderTask


class Tiny(LoaderTask):
    """Points of two classes, a network with batch statistics and dropout, an optimiser with momentum."""

    metric = "accuracy"
    higher_is_better = True
    bits = (3, 8)
    steps = 4
    evaluate_every = 1

    def model(self, run):
        return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))

    def loaders(self, run):
        points = torch.randn(60, 2)
        labels = (points.prod(1) > 0).long()
        parts = random_split(TensorDataset(points, labels), [40, 10, 10])
        return [DataLoader(part, run.batch_size or 8, shuffle=True) for part in parts]

    def loss(self, model, batch):
        points, labels = batch
        return nn.functional.cross_entropy(model(points), labels)

    def score(self, model, batch):
        points, labels = batch
        return (model(points).argmax(1) == labels).float()

    def optimizer(self, model, run):
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
