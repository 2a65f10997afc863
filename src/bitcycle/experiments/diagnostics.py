"""Measurements along a training that explain what precision does to it.

| measurement              | what it is                                                                                |
|--------------------------|-------------------------------------------------------------------------------------------|
| Fisher information       | tr F = E |grad log p(y|x)|^2 with y drawn from the model itself: how much the model      |
|                          | still depends on its weights (Achille et al., 2019). The score has mean 0: with n draws a |
|                          | batch tr F = n E|g|^2, g the gradient of their mean: one pass is an unbiased estimate.    |
|                          | Measured where the loss is a cross entropy                                                |
| gradient over noise      | |g| / (sqrt(3) |g - g'|), g' in full precision on the same batch: below 1, rounding       |
|                          | drowns what the gradient says, and quantised training is said to help no more             |
| gradient diversity       | (|a|^2 + |b|^2) / |a + b|^2 for two batches: 1/2 if they agree, 1 if they have nothing in |
|                          | common (Yin et al., 2018)                                                                 |
| gradient, update after a | norm at the first step on other bits over that at the step before, on average since the   |
| change of bits           | last measurement: far from 1 where changes of precision shake training                    |

The training is left exactly as it was: a run that is measured ends with the same weights as one that is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bitcycle._cost import Meter
from bitcycle.conversion.convert import set_bits
from bitcycle.conversion.tracing import preserve_state
from bitcycle.experiments.tasks import Training
from bitcycle.kernels.noise import mix
from bitcycle.scheduler import PrecisionScheduler

FISHER = "Fisher information"
OVER_NOISE = "gradient over noise"
DIVERSITY = "gradient diversity"
GRADIENT_AFTER = "gradient after a change of bits"
UPDATE_AFTER = "update after a change of bits"

Gradients = list[Tensor]


class Diagnostics:
    """Takes the measurements of one training."""

    def __init__(self, training: Training, model: nn.Module, scheduler: PrecisionScheduler, meter: Meter, seed: int):
        self.training, self.model, self.scheduler, self.meter, self.seed = training, model, scheduler, meter, seed
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.before: tuple[float, float] | None = None  # norms of gradient and update at the step before a change
        self.ratios: list[tuple[float, float]] = []

    def take(self, step: int) -> dict[str, float]:
        """Everything as of now: on the bits of the coming step, and on its batch and the one after."""
        with self._aside():
            one, other = self._gradients(step), self._gradients(step + 1)
            exact = self._gradients(step, full=True)
            fisher = self._fisher(step)
        noise = _norm([a - b for a, b in zip(one, exact, strict=True)])
        agreement = _norm([a + b for a, b in zip(one, other, strict=True)]) ** 2
        found = {
            FISHER: fisher,
            # Without noise there is nothing to compare with: full precision.
            OVER_NOISE: _norm(one) / (math.sqrt(3) * noise) if noise else math.nan,
            DIVERSITY: (_norm(one) ** 2 + _norm(other) ** 2) / agreement if agreement else math.nan,
            GRADIENT_AFTER: _mean([gradient for gradient, _ in self.ratios]),
            UPDATE_AFTER: _mean([update for _, update in self.ratios]),
        }
        self.ratios.clear()
        return {name: value for name, value in found.items() if not math.isnan(value)}

    @contextmanager
    def updating(self, step: int) -> Iterator[None]:
        """Around the optimiser's step: compares the steps on both sides of a change of bits."""
        bits = self.scheduler.schedule
        total = self.scheduler.total_steps
        changed = step > 0 and bits(step, total) != bits(step - 1, total)
        changes = step + 1 < total and bits(step + 1, total) != bits(step, total)
        if not (changed or changes):
            yield
            return
        weights = [parameter.detach().clone() for parameter in self.parameters]
        gradient = _norm([p.grad for p in self.parameters if p.grad is not None])  # before it is clipped
        yield
        update = _norm([p.detach() - w for p, w in zip(self.parameters, weights, strict=True)])
        if changed and self.before and all(self.before):
            self.ratios.append((gradient / self.before[0], update / self.before[1]))
        self.before = (gradient, update) if changes else None

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {"before": self.before, "ratios": self.ratios}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.before, self.ratios = state["before"], state["ratios"]

    def _gradients(self, step: int, full: bool = False) -> Gradients:
        """Of the loss on the batch of a step, with the dropout and the noise that the training step has."""
        torch.manual_seed(mix(self.seed, step, 2) >> 1)
        state = self.training.state_dict()
        self._as_scheduled()
        if full:
            set_bits(self.model, forward=None, backward=None)
        found = torch.autograd.grad(self.training.loss(step), self.parameters, allow_unused=True)
        self.training.load_state_dict(state)
        return [torch.zeros(()) if gradient is None else gradient for gradient in found]

    def _fisher(self, step: int) -> float:
        with _LabelsOfTheModel() as labels:
            gradients = self._gradients(step)
        return labels.count * _norm(gradients) ** 2 if labels.count else math.nan

    def _as_scheduled(self) -> None:
        self.scheduler.load_state_dict(self.scheduler.state_dict())

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Put back the model's buffers, its bits and noise, and the random state; count no cost."""
        mode = self.model.training
        self.meter.pause()
        self.model.train()
        try:
            with preserve_state(self.model):
                yield
        finally:
            self.model.train(mode)
            self.meter.resume()
            self._as_scheduled()


class _LabelsOfTheModel(TorchFunctionMode):
    """Within it, a cross entropy takes labels drawn from the prediction itself instead of those it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not F.cross_entropy:
            return func(*args, **(kwargs or {}))
        logits = args[0].flatten(0, -2)
        drawn = torch.multinomial(logits.detach().float().softmax(-1), 1).squeeze(1)
        self.count += len(drawn)
        return F.nll_loss(logits.log_softmax(-1), drawn)


def _norm(tensors: Gradients) -> float:
    return float(torch.nn.utils.get_total_norm(tensors)) if tensors else 0.0


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
