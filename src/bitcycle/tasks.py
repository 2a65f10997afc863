'''The interface for your own tasks.

:class:`LoaderTask` makes a task of a model, data loaders and a loss, and is the shortest way. This page shows the
general interface, for training runs with state of their own.

A task is a class with a few attributes and a method ``prepare``, which returns a :class:`Training`: the model, the
optimiser, the loss of a step and the metric. Once registered, it trains like the built-in tasks: with a precision
schedule, checkpoints, cost metering and exact resume.

>>> import torch
>>> from bitcycle.lab.runs.training import train
>>> from bitcycle.tasks import Batches, RunConfig, Split, Task, Training, register_task
>>>
>>> class BlobsTraining(Training):
...     """A linear classifier of points around two centres."""
...
...     def __init__(self, run):
...         generator = torch.Generator().manual_seed(0)  # the data does not depend on the run's seed
...         self.labels = torch.arange(300) % 2
...         self.points = torch.randn(300, 2, generator=generator) + 4.0 * self.labels[:, None]
...         self.rows = dict(zip(Split, torch.arange(300).split(100)))
...         self.model = torch.nn.Linear(2, 2)
...         self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)
...         self.batches = Batches(100, run.batch_size or 20, run.seed)
...         self.steps_per_epoch = self.batches.per_epoch
...
...     def loss(self, step):
...         rows = self.rows[Split.TRAIN][self.batches(step)]
...         logits = self.model(self.points[rows].to(self.device))
...         return torch.nn.functional.cross_entropy(logits, self.labels[rows].to(self.device))
...
...     @torch.no_grad()
...     def evaluate(self, split):
...         rows = self.rows[split]
...         predicted = self.model(self.points[rows].to(self.device)).argmax(1).cpu()
...         return (predicted == self.labels[rows]).float().mean().item()
...
...     def learning_rate(self, step, total):
...         return 1 - step / total  # multiplies the optimiser's learning rate
...
...     def example(self):
...         return self.points[:20].to(self.device)
>>>
>>> @register_task
... class BlobsTask(Task):
...     name = "blobs"
...     metric = "accuracy"
...     bits = (3, 8)
...     steps = 30
...     evaluate_every = 10
...
...     def prepare(self, run):
...         return BlobsTraining(run)
>>>
>>> result, model = train(RunConfig("blobs", "CR:3-8:cycles=2", steps=30, seed=1))
>>> result.test > 0.9, [point["step"] for point in result.curve], type(model).__name__
(True, [10, 20, 30], 'Linear')

A task stays registered until the process ends; this example cleans up after itself:

>>> TASKS.pop("blobs").__name__
'BlobsTask'
'''

from bitcycle.lab.data.splits import Split
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.tasks import TASKS, task_named
from bitcycle.lab.tasks.batches import Batches
from bitcycle.lab.tasks.loader_task import LoaderTask
from bitcycle.lab.tasks.task import Option, Task, Training, register_task

__all__ = [
    "TASKS",
    "Batches",
    "LoaderTask",
    "Option",
    "RunConfig",
    "Split",
    "Task",
    "Training",
    "register_task",
    "task_named",
]
