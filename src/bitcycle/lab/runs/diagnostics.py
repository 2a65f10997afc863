"""Diagnostics along a training, which explain what precision does to it.

| diagnostic               | definition                                                                                |
|--------------------------|-------------------------------------------------------------------------------------------|
| Fisher information       | tr F = E |grad log p(y|x)|^2 with y drawn from the model's own prediction: how strongly   |
|                          | the predictions depend on the weights (Achille et al., 2019). The score has mean 0, so    |
|                          | that n E|g|^2 is an unbiased estimate, where g is the mean gradient of n draws. Only      |
|                          | measured where the loss is a cross entropy                                                |
| gradient over noise      | |g| / (sqrt(3) |g - g'|), where g' is the gradient in full precision on the same batch.   |
|                          | Below 1, rounding noise dominates the gradient                                            |
| gradient diversity       | (|a|^2 + |b|^2) / |a + b|^2 for the gradients of two batches: 1/2 if they are equal, 1 if |
|                          | they are orthogonal (Yin et al., 2018)                                                    |
| gradient, update after a | the norm at the first step with new bits divided by the norm at the step before, averaged |
| change of bits           | over the changes since the last measurement: far from 1 where changes disturb training    |

Measuring does not change the training: a run with diagnostics ends with the same weights as one without.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bitcycle._cost import Meter
from bitcycle.conversion.convert import set_bits
from bitcycle.conversion.running import preserve_state
from bitcycle.kernels.noise import mix
from bitcycle.lab.runs.result import Diagnostic
from bitcycle.lab.tasks import Training
from bitcycle.scheduler import PrecisionScheduler

Gradients = list[Tensor]


class Diagnostics:
    """Measures one training.

    Args:
        training: The task's training.
        model: The quantised model that it trains.
        scheduler: The scheduler of its bits.
        meter: The cost meter, which is paused during measurements.
        seed: The random seed of the run.
    """

    def __init__(self, training: Training, model: nn.Module, scheduler: PrecisionScheduler, meter: Meter, seed: int):
        self.training, self.model, self.scheduler, self.meter, self.seed = training, model, scheduler, meter, seed
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.before: tuple[float, float] | None = None  # norms of gradient and update at the step before a change
        self.ratios: list[tuple[float, float]] = []

    def measure(self, step: int) -> dict[str, float]:
        """Return all diagnostics before a step, by their names in a curve.

        They are measured at the bits of that step, on its batch and the following one. Those that are undefined, such
        as the noise of full precision, are left out.
        """
        with self._no_side_effects():
            gradient, following = self._gradients(step), self._gradients(step + 1)
            exact = self._gradients(step, full_precision=True)
            fisher = self._fisher(step)
        noise = _norm([a - b for a, b in zip(gradient, exact, strict=True)])
        combined = _norm([a + b for a, b in zip(gradient, following, strict=True)]) ** 2
        squares = _norm(gradient) ** 2 + _norm(following) ** 2
        values = {
            Diagnostic.FISHER_INFORMATION: fisher,
            Diagnostic.GRADIENT_OVER_NOISE: _norm(gradient) / (math.sqrt(3) * noise) if noise else math.nan,
            Diagnostic.GRADIENT_DIVERSITY: squares / combined if combined else math.nan,
            Diagnostic.GRADIENT_AFTER_CHANGE: _mean([gradient for gradient, _ in self.ratios]),
            Diagnostic.UPDATE_AFTER_CHANGE: _mean([update for _, update in self.ratios]),
        }
        self.ratios.clear()
        # Plain strings as keys: a checkpoint holds the curve, and is read without enums.
        return {diagnostic.value: value for diagnostic, value in values.items() if not math.isnan(value)}

    @contextmanager
    def observe_update(self, step: int) -> Iterator[None]:
        """Wrap the optimiser's step, to compare the steps before and after a change of bits."""
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
        """Return the state that a checkpoint needs."""
        return {"before": self.before, "ratios": self.ratios}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.before, self.ratios = state["before"], state["ratios"]

    def _gradients(self, step: int, full_precision: bool = False) -> Gradients:
        """Return the gradients on the batch of a step, with the dropout and rounding noise of the training step."""
        torch.manual_seed(mix(self.seed, step, 2) >> 1)
        state = self.training.state_dict()
        self._reset_bits()
        if full_precision:
            set_bits(self.model, forward=None, backward=None)
        gradients = torch.autograd.grad(self.training.loss(step), self.parameters, allow_unused=True)
        self.training.load_state_dict(state)
        return [torch.zeros(()) if gradient is None else gradient for gradient in gradients]

    def _fisher(self, step: int) -> float:
        with _SampledLabels() as labels:
            gradients = self._gradients(step)
        return labels.count * _norm(gradients) ** 2 if labels.count else math.nan

    def _reset_bits(self) -> None:
        self.scheduler.load_state_dict(self.scheduler.state_dict())

    @contextmanager
    def _no_side_effects(self) -> Iterator[None]:
        """Train without effects on the model, its bits and the random state; count no cost."""
        self.meter.pause()
        try:
            with preserve_state(self.model):
                self.model.train()
                yield
        finally:
            self.meter.resume()


_CROSS_ENTROPY = signature(F.cross_entropy)


class _SampledLabels(TorchFunctionMode):
    """Makes every cross entropy use labels drawn from the prediction instead of the labels it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not F.cross_entropy:
            return func(*args, **(kwargs or {}))
        given = _CROSS_ENTROPY.bind(*args, **(kwargs or {}))
        given.apply_defaults()
        shape = given.arguments["input"].shape
        logits = given.arguments["input"].flatten(0, -2)
        labels = torch.multinomial(logits.detach().float().softmax(-1), 1).squeeze(1)
        self.count += len(labels)
        loss = F.nll_loss(logits.log_softmax(-1), labels, reduction=given.arguments["reduction"])
        return loss.view(shape[:-1]) if loss.dim() else loss


def _norm(tensors: Gradients) -> float:
    return float(torch.nn.utils.get_total_norm(tensors)) if tensors else 0.0


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
