"""A user's files: a task, a module beside it, and data. Small, but with everything that must survive a resume."""

TASK = '''"""Points of two classes."""
import time

import torch
from layers import make_network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from bitcycle.tasks import LoaderTask


class Points(LoaderTask):
    metric = "accuracy"
    higher_is_better = True
    bits = (3, 8)
    steps = 40
    evaluate_every = 10
    data = "points.txt"
    learning = 0.05

    def model(self, run):
        return make_network()

    def loaders(self, run):
        with open(run.data) as file:
            rows = torch.tensor([[float(number) for number in line.split()] for line in file])
        parts = random_split(TensorDataset(rows[:, :2], rows[:, 2].long()), [0.6, 0.2, 0.2])
        return [DataLoader(part, run.batch_size or 8, shuffle=True) for part in parts]

    def loss(self, model, batch):
        time.sleep(0.01)
        points, labels = batch
        return nn.functional.cross_entropy(model(points), labels)

    def score(self, model, batch):
        points, labels = batch
        return (model(points).argmax(1) == labels).float()

    def optimizer(self, model, run):
        return torch.optim.SGD(model.parameters(), lr=self.learning, momentum=0.9)
'''
LAYERS = """from torch import nn


def make_network():
    return nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
"""


def write(folder):
    """Write the files and return the reference to the task."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "points_task.py").write_text(TASK)
    (folder / "layers.py").write_text(LAYERS)
    rows = [f"{(n * 37 % 100) / 50 - 1 + n % 2} {(n * 61 % 100) / 50 - 1} {n % 2}" for n in range(100)]
    (folder / "points.txt").write_text("\n".join(rows))
    return f"{folder / 'points_task.py'}:Points"


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
