"""What a task is: a data set, a model and a training recipe, made ready for one run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bitcycle._support.names import nearest
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.experiments.run_config import RunConfig
from bitcycle.kernels.noise import mix


@dataclass(frozen=True)
class Option:
    """Something a task lets the user choose beside model, data and schedule."""

    default: str
    about: str
    choices: tuple[str, ...] = ()
    """The values there are; any if empty."""


class Training(ABC):
    """A task made ready for one run: plain functions of the step, and the little state that is not."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    recipe: Recipe = Recipe()
    policy: str | None = None
    clip: float | None = None
    """The largest norm of the gradient."""
    steps_per_epoch: int = 1
    """Steps of one pass through the training data."""

    @property
    def device(self) -> torch.device:
        """Where the model is, and its inputs have to go."""
        return next(self.model.parameters()).device

    @abstractmethod
    def loss(self, step: int) -> Tensor:
        """The loss on the batch of a step; batches are a pure function of (seed, step)."""

    @abstractmethod
    def evaluate(self, part: str) -> float:
        """The metric on ``validation`` or ``test``, in evaluation mode (and so at q_max)."""

    def learning_rate(self, step: int, total: int) -> float:
        """The factor on the optimiser's learning rate at a step."""
        return 1.0

    def evaluation_interval(self, usual: int, total: int) -> int:
        """Steps between two looks at validation: some forty of them in a long training."""
        return max(usual, total // 40)

    def validated(self, metric: float) -> None:  # noqa: B027 - most recipes have no use for it
        """Called with each validation metric, for recipes that depend on it."""

    def restarted(self) -> None:  # noqa: B027 - most recipes are functions of the step alone
        """Called where the learning rate begins anew."""

    def extra_metrics(self, part: str) -> dict[str, float]:
        """Further metrics by name, looked at once, after training."""
        return {}

    @abstractmethod
    def example(self) -> Any:
        """Inputs of the model as in a training step, to count its cost."""

    def state_dict(self) -> dict[str, Any]:
        """The state beside model and optimiser."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - most have no state
        """Put the state back."""


class Task(ABC):
    """A kind of problem; :meth:`prepare` makes a training of a run."""

    name: ClassVar[str]
    about: ClassVar[str]
    metric: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    bits: ClassVar[tuple[int, int]]
    """q_min and q_max of the embedded default."""
    cycles: ClassVar[int] = 8
    steps: ClassVar[int]
    evaluate_every: ClassVar[int]
    models: ClassVar[tuple[str, ...]]
    options: ClassVar[dict[str, Option]] = {}
    embedded: ClassVar[str]
    official: ClassVar[str]

    @abstractmethod
    def prepare(self, run: RunConfig) -> Training:
        """Data, model and optimiser, everything random drawn from the run's seed."""

    def chosen_options(self, run: RunConfig) -> dict[str, str]:
        """The options that a run names, with the defaults of the others."""
        chosen = {name: option.default for name, option in self.options.items()}
        for name, value in run.options:
            if name not in self.options:
                raise ValueError(f"the task {self.name} has no option {name!r}; {nearest(name, self.options)}")
            choices = self.options[name].choices
            if choices and value not in choices:
                raise ValueError(f"{name} is {' or '.join(map(repr, choices))}, not {value!r}")
            chosen[name] = value
        return chosen

    def chosen_model(self, run: RunConfig) -> str:
        """The model that a run names, or the default."""
        name = run.model or self.models[0]
        if name not in self.models:
            raise ValueError(f"the task {self.name} has no model {name!r}; {nearest(name, self.models)}")
        return name


TASKS: dict[str, Callable[[], Task]] = {}


def register_task(kind: type[Task]) -> type[Task]:
    """Put a task into the registry."""
    TASKS[kind.name] = kind
    return kind


class Batches:
    """Rows of a data set, batch by batch: every epoch a permutation of its own, a pure function of (seed, step).

    >>> batches = Batches(rows=5, size=2, seed=0)
    >>> sorted(torch.cat([batches(step) for step in range(5)]).tolist())
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    """

    def __init__(self, rows: int, size: int, seed: int) -> None:
        self.rows, self.size, self.seed = rows, size, seed
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)

    def __call__(self, step: int) -> Tensor:
        places = range(step * self.size, (step + 1) * self.size)
        return torch.stack([self._permutation(place // self.rows)[place % self.rows] for place in places])

    @property
    def per_epoch(self) -> int:
        """Steps that it takes to go through all rows."""
        return -(-self.rows // self.size)

    def _permutation(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(mix(self.seed, epoch) >> 1)
            self._epoch, self._order = epoch, torch.randperm(self.rows, generator=generator)
        return self._order


def at_boundaries(step: int, total: int, boundaries: tuple[float, ...], factor: float) -> float:
    """Step decay: the factor once for each boundary (a fraction of training) that lies behind.

    >>> [at_boundaries(step, 100, (0.5, 0.75), 0.1) for step in (0, 50, 80)]
    [1.0, 0.1, 0.010000000000000002]
    """
    return factor ** sum(step >= boundary * total for boundary in boundaries)
