"""The interface of a task (a data set, a model and a training recipe, prepared for one run), and the tasks by name."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from bitcycle._support.names import nearest
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.lab.data.splits import Split
from bitcycle.lab.runs.run_config import RunConfig


class FinalFigures(NamedTuple):
    """What a finished training is measured by on the test set."""

    metric: float
    """The task's metric."""
    extra: dict[str, float]
    """Further metrics by name."""
    losses: Tensor | None
    """The loss of each example, if the task computes them."""


class Training(ABC):
    """A task prepared for one run.

    Subclasses set ``model`` and ``optimizer`` and implement :meth:`loss`, :meth:`evaluate` and :meth:`example`. For a
    run to resume exactly, :meth:`loss` must depend only on the seed, the step, the weights and the state in
    :meth:`state_dict`. :mod:`bitcycle.tasks` has a complete example.
    """

    model: nn.Module
    """The float model. The training loop quantises it and moves it to its device."""
    optimizer: torch.optim.Optimizer
    """The optimiser of the model's parameters, with the initial learning rate."""
    recipe: Recipe = Recipe()
    """How the model is quantised."""
    keep: tuple[str, ...] = ()
    """The layers that stay in full precision, as in ``bitcycle.quantize(model, keep=...)``."""
    policy: str | None = None
    """The layers that stay in full precision, as in ``bitcycle.quantize(model, policy=...)``."""
    clip: float | None = None
    """The maximum norm of the gradient; ``None`` = no clipping."""
    steps_per_epoch: int = 1
    """Steps of one pass through the training data."""

    @property
    def device(self) -> torch.device:
        """The device of the model, on which its inputs must be."""
        return next(self.model.parameters()).device

    @abstractmethod
    def loss(self, step: int) -> Tensor:
        """Compute the training loss.

        Args:
            step: The number of the step, from 0. The batch is a function of the run's seed and this number.

        Returns:
            A scalar tensor to backpropagate from.
        """

    @abstractmethod
    def evaluate(self, split: Split) -> float:
        """Compute the task's metric. The model is in evaluation mode, so it runs at the schedule's q_max.

        Args:
            split: The validation set or the test set.
        """

    @abstractmethod
    def example(self) -> Any:
        """Return inputs of the model like those of a training step. They are used to count its cost.

        Returns:
            A tensor, a tuple of positional arguments, or a dictionary of keyword arguments.
        """

    def step_size(self, step: int) -> float:
        """Return the cost of a step in relation to one with the inputs of :meth:`example`.

        It is 1 by default. Where it varies, and is not random, controls at equal cost are solved with it.
        """
        return 1.0

    def learning_rate(self, step: int, total: int) -> float:
        """Return the factor by which the optimiser's learning rate is multiplied at a step.

        Args:
            step: The number of the step, from 0. A learning-rate policy may shift it.
            total: Number of steps over which the learning-rate schedule extends.

        Returns:
            The factor; always 1 by default.
        """
        return 1.0

    def evaluation_interval(self, usual: int, total: int) -> int:
        """Return the number of steps between evaluations on the validation set.

        Args:
            usual: The task's ``evaluate_every``.
            total: Steps of the run.

        Returns:
            By default ``usual``, but no more than about 40 evaluations in a long run.
        """
        return max(usual, total // 40)

    def validated(self, metric: float) -> None:  # noqa: B027 - optional
        """Receive each validation metric, for recipes that depend on it, such as decay on plateau."""

    def restarted(self) -> None:  # noqa: B027 - optional
        """Reset the state of the learning-rate schedule. Called when the learning rate restarts."""

    def test(self) -> FinalFigures:
        """Compute everything about the test set. Called once, after training; the model is in evaluation mode.

        Override it where one pass through the data gives all of it.
        """
        return FinalFigures(self.evaluate(Split.TEST), self.extra_metrics(Split.TEST), self.example_losses(Split.TEST))

    def extra_metrics(self, split: Split) -> dict[str, float]:
        """Compute further metrics by name."""
        return {}

    def example_losses(self, split: Split) -> Tensor | None:
        """Compute the loss of each example.

        Their mean is recorded as the run's ``test loss``. It varies less between random seeds than an accuracy, and the
        losses of two runs can be compared example by example. The model is in evaluation mode.

        Args:
            split: The validation set or the test set.

        Returns:
            One loss per example, in the order of the data; None, the default, if the task does not compute them.
        """
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return any state other than model and optimiser, for checkpoints: tensors, numbers, strings, containers."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - optional
        """Restore what :meth:`state_dict` returned."""


AUTO = "auto"
"""The default of options whose value follows from the data or the model."""


@dataclass(frozen=True)
class Option:
    """A setting of a task that the user can choose, in addition to the model, the data and the schedule.

    Example:
        >>> Option("full", "precision of sums over neighbours", ("full", "quantized")).default
        'full'
        >>> Option("auto", "units of hidden layers", kind=int).parse("hidden", "200")
        200
    """

    default: str
    """The value if the run does not set the option."""
    about: str
    """One line for ``bitcycle tasks``."""
    choices: tuple[str, ...] = ()
    """The allowed values; any value if empty."""
    kind: type[str] | type[int] | type[float] = str
    """``int`` for an integer of 1 or more, ``float`` for a number above 0. With the default ``auto``, that value is
    read as ``None``."""

    def parse(self, name: str, text: str) -> Any:
        """Return the value of the option of this name.

        Raises:
            ValueError: If it is not one of the choices, or not such a number.
        """
        if self.choices and text not in self.choices:
            raise ValueError(
                f"{name} must be {' or '.join(repr(str(choice)) for choice in self.choices)}, got {text!r}"
            )
        if self.kind is str or text == AUTO == self.default:
            return text if self.kind is str else None
        try:
            value = self.kind(text)
        except ValueError:
            value = math.nan
        if not 0 < float(value) < math.inf:
            expected = "an integer of 1 or more" if self.kind is int else "a number above 0"
            raise ValueError(f"{name} must be {expected}, got {text!r}")
        return value


ACTIVATIONS = Option(
    AUTO,
    "one grid per token (auto), so that neither later words nor other samples change a prediction, or one grid for the "
    "activations of a tensor, as in the paper",
    (AUTO, "tensor"),
)
"""The granularity of activations in tasks over tokens."""


class Task(ABC):
    """A data set with its models and its training recipe.

    Subclasses set the class attributes, implement :meth:`prepare`, and are registered by :func:`register_task`. The
    attributes ``name``, ``metric``, ``bits`` and ``steps`` are required. :mod:`bitcycle.tasks` has a complete example.
    """

    name: ClassVar[str]
    """The name by which runs refer to the task."""
    about: ClassVar[str] = ""
    """A short description for ``bitcycle tasks``."""
    metric: ClassVar[str]
    """The name of the metric that :meth:`Training.evaluate` returns."""
    higher_is_better: ClassVar[bool] = True
    """Whether a higher value of the metric is better."""
    bits: ClassVar[tuple[int, int]]
    """Default q_min and q_max of schedules."""
    cycles: ClassVar[int] = 8
    """Default number of cycles of schedules."""
    steps: ClassVar[int]
    """Default number of steps."""
    evaluate_every: ClassVar[int] = 50
    """Steps between evaluations on the validation set, see :meth:`Training.evaluation_interval`."""
    models: ClassVar[tuple[str, ...]] = ("default",)
    """Names of the models, the default first."""
    options: ClassVar[dict[str, Option]] = {}
    """The options of the task, by name."""
    data: ClassVar[str] = ""
    """The folder or file with the data of a user's task, relative to its file, if a run names none."""
    source: ClassVar[str] = ""
    """The digest of the source of a user's task, set when it is loaded from a file."""
    embedded: ClassVar[str] = ""
    """The data that is used if a run names none, for ``bitcycle tasks``."""
    official: ClassVar[str] = ""
    """The formats of official data that the task reads, for ``bitcycle tasks``."""

    @abstractmethod
    def prepare(self, run: RunConfig) -> Training:
        """Load the data and create the model and the optimiser.

        Args:
            run: The configuration of the run. torch's random seed has been set from its seed, so that initial weights
                are reproducible.

        Raises:
            ValueError: If the run's model, data or options cannot be used.
        """

    def chosen_options(self, run: RunConfig) -> dict[str, Any]:
        """Return the value of every option: that of the run, or else the default.

        Raises:
            ValueError: If the run sets an unknown option, or to a value that is not allowed.
        """
        chosen = dict(run.options)
        for name in chosen:
            if name not in self.options:
                hint = nearest(name, self.options, "" if self.options else "it has no options")
                raise ValueError(f"the task {self.name} has no option {name!r}; {hint}")
        return {name: option.parse(name, chosen.get(name, option.default)) for name, option in self.options.items()}

    def chosen_model(self, run: RunConfig) -> str:
        """Return the name of the run's model, or the task's default.

        Raises:
            ValueError: If the task has no such model.
        """
        name = run.model or self.models[0]
        if name not in self.models:
            raise ValueError(f"the task {self.name} has no model {name!r}; {nearest(name, self.models)}")
        return name


TASKS: dict[str, type[Task]] = {}
"""The registered tasks, by name."""

_REQUIRED = ("name", "metric", "bits", "steps")


def register_task(task: type[Task]) -> type[Task]:
    """Register a task, so that runs can refer to it by name. Use it as a class decorator.

    Registering a class again, or a new version of it from a re-executed module or notebook cell, replaces it.

    Args:
        task: A subclass of :class:`Task`.

    Returns:
        The same class.

    Raises:
        TypeError: If it is not a subclass of :class:`Task`.
        ValueError: If a required class attribute is missing, or another class has the name.

    Example:
        >>> register_task(dict)
        Traceback (most recent call last):
        ...
        TypeError: register_task takes a subclass of bitcycle.tasks.Task, got <class 'dict'>
    """
    if not (isinstance(task, type) and issubclass(task, Task)):
        raise TypeError(f"register_task takes a subclass of bitcycle.tasks.Task, got {task!r}")
    check_attributes(task, f"the task {_path(task)}")
    other = TASKS.get(task.name)
    if other is not None and _path(other) != _path(task):
        raise ValueError(f"the task name {task.name!r} of {_path(task)} is already taken by {_path(other)}")
    TASKS[task.name] = task
    return task


def check_attributes(task: type[Task], called: str) -> None:
    """Raise a ValueError if a task lacks a required class attribute; ``called`` is how the message refers to it."""
    missing = [attribute for attribute in _REQUIRED if not hasattr(task, attribute)]
    if missing:
        raise ValueError(f"{called} has no {', '.join(missing)}; set it as a class attribute")


def _path(task: type[Task]) -> str:
    return f"{task.__module__}.{task.__qualname__}"
