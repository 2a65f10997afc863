"""A task made of a model, data loaders and a loss: the shortest way to write a task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader

from bitcycle.arithmetic.recipe import Recipe
from bitcycle.conversion.running import CallArguments, preserve_state
from bitcycle.lab.data.loader_batches import LoaderBatches, seeded
from bitcycle.lab.data.splits import Split
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.tasks.task import Task, Training


class LoaderTask(Task):
    """A task that is described by its model, its data loaders and its loss.

    Subclasses implement :meth:`model`, :meth:`loaders` and :meth:`loss`. Everything else has a default. Without a
    :meth:`score`, the metric is the loss. A DataLoader that shuffles is given the order of the run's seed, so that a
    run that is killed resumes exactly, see :class:`~bitcycle.lab.data.loader_batches.LoaderBatches`.
    ``bitcycle task new my_task.py`` writes a file with an example.

    Example:
        >>> from torch.utils.data import TensorDataset, random_split
        >>> class Sums(LoaderTask):
        ...     def model(self, run):
        ...         return nn.Linear(4, 1)
        ...
        ...     def loaders(self, run):
        ...         x = torch.randn(90, 4)
        ...         parts = random_split(TensorDataset(x, x.sum(1, keepdim=True)), [50, 20, 20])
        ...         return [DataLoader(part, batch_size=10, shuffle=True) for part in parts]
        ...
        ...     def loss(self, model, batch):
        ...         x, y = batch
        ...         return nn.functional.mse_loss(model(x), y)
        >>> training = Sums().prepare(RunConfig("Sums", "full", steps=20))
        >>> Sums.name, Sums.metric, training.steps_per_epoch, training.loss(3).shape
        ('Sums', 'loss', 5, torch.Size([]))
    """

    metric = "loss"
    higher_is_better = False
    bits = (3, 8)
    steps = 400
    recipe: ClassVar[Recipe] = Recipe()
    """How the model is quantised."""
    keep: ClassVar[tuple[str, ...]] = ()
    """The layers that stay in full precision, by name, as in ``bitcycle.quantize(model, keep=...)``."""
    clip: ClassVar[float | None] = None
    """The maximum norm of the gradient; ``None`` = no clipping."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "name" not in vars(cls):
            cls.name = cls.__name__
        if "score" in vars(cls) and not {"metric", "higher_is_better"} <= vars(cls).keys():
            raise TypeError(f"{cls.__name__} has a score: set metric, its name, and higher_is_better")

    @abstractmethod
    def model(self, run: RunConfig) -> nn.Module:
        """Return a new float model. torch's random seed has been set from the run's."""

    @abstractmethod
    def loaders(self, run: RunConfig) -> Iterable[Iterable[Any]]:
        """Return the training, validation and test data: a DataLoader, and two DataLoaders or other iterables.

        torch's random seed is the same for all runs, so that they all have the same split. ``run.data`` is the folder
        or file of ``--data``, ``run.batch_size`` the value of ``--batch-size``, or 0.
        """

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss of a batch, a scalar. The tensors of the batch are on the device of the model."""

    def score(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the metric of each sample of a batch, or one value for the batch; by default its loss.

        The metric of a data set is the mean over all values. The model is in evaluation mode, without gradients.
        """
        return self.loss(model, batch)

    def optimizer(self, model: nn.Module, run: RunConfig) -> torch.optim.Optimizer:
        """Return the optimiser of the model; by default AdamW with a learning rate of 0.001."""
        return torch.optim.AdamW(model.parameters(), lr=1e-3)

    def learning_rate(self, step: int, total: int) -> float:
        """Return the factor by which the learning rate is multiplied at a step; always 1 by default."""
        return 1.0

    def prepare(self, run: RunConfig) -> Training:
        self.chosen_model(run)
        return LoaderTraining(self, run)


class LoaderTraining(Training):
    """A :class:`LoaderTask` prepared for one run."""

    def __init__(self, task: LoaderTask, run: RunConfig) -> None:
        self.task, self.seed = task, run.seed
        with seeded(0):
            self.loaders = self._loaders_of(task, run)
        self.batches = LoaderBatches(self.loaders[Split.TRAIN], run.seed)
        self.steps_per_epoch = self.batches.per_epoch
        self.model = _expect(task.model(run), nn.Module, "model", task)
        self.optimizer = _expect(task.optimizer(self.model, run), torch.optim.Optimizer, "optimizer", task)
        self.recipe, self.keep, self.clip = task.recipe, task.keep, task.clip

    @staticmethod
    def _loaders_of(task: LoaderTask, run: RunConfig) -> dict[Split, Any]:
        loaders = list(task.loaders(run))
        if len(loaders) != len(Split) or not isinstance(loaders[0], DataLoader):
            kinds = ", ".join(type(each).__name__ for each in loaders)
            raise ValueError(
                f"{task.name}.loaders must return a training DataLoader, and validation and test data, got {kinds}"
            )
        if run.batch_size and run.batch_size != loaders[0].batch_size:
            raise ValueError(
                f"{task.name}.loaders ignores run.batch_size: it is {run.batch_size}, but the training loader has "
                f"{loaders[0].batch_size}"
            )
        return dict(zip(Split, loaders, strict=True))

    def loss(self, step: int) -> Tensor:
        loss = self.task.loss(self.model, _moved(self.batches(step), self.device))
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            given = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise ValueError(f"{self.task.name}.loss must return a tensor with one value, got {given}")
        return loss

    @torch.no_grad()
    def evaluate(self, split: Split) -> float:
        total, count = 0.0, 0
        with seeded(self.seed, list(Split).index(split), 3):
            for batch in self.loaders[split]:
                values = torch.as_tensor(self.task.score(self.model, _moved(batch, self.device)))
                total, count = total + values.double().sum().item(), count + values.numel()
        if not count:
            raise ValueError(f"{self.task.name}: the {split} data is empty")
        return total / count

    def learning_rate(self, step: int, total: int) -> float:
        return self.task.learning_rate(step, total)

    def example(self) -> CallArguments:
        """Return the arguments with which the loss calls the model first."""
        calls: list[CallArguments] = []

        def note(module: nn.Module, positional: tuple[Any, ...], keywords: dict[str, Any]) -> None:
            calls.append(CallArguments(positional, keywords))

        handle = self.model.register_forward_pre_hook(note, with_kwargs=True)
        try:
            with preserve_state(self.model), torch.no_grad():
                self.loss(0)
        finally:
            handle.remove()
        if not calls:
            raise ValueError(f"{self.task.name}.loss does not call the model, so its cost cannot be counted")
        return calls[0]


def _expect(value: Any, kind: type, method: str, task: LoaderTask) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{task.name}.{method} must return a {kind.__name__}, got {type(value).__name__}")
    return value


def _moved(batch: Any, device: torch.device) -> Any:
    """Return a batch with all its tensors on a device."""
    return tree_map(lambda part: part.to(device) if hasattr(part, "to") else part, batch)
