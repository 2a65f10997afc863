"""The one training loop, for all tasks: train on a schedule, watch validation, look at the test part once.

Everything random is a function of (seed, step), everything else is in the checkpoint: a run that is killed at any
moment and started again ends with the very same weights and figures as one that was not.
"""

from __future__ import annotations

import copy
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import nn

import bitcycle
from bitcycle._cost import Meter
from bitcycle.conversion.convert import quantize, restore
from bitcycle.experiments.checkpoints import load_checkpoint, save_checkpoint
from bitcycle.experiments.device import check_device
from bitcycle.experiments.diagnostics import Diagnostics
from bitcycle.experiments.learning_rate import LearningRatePolicy
from bitcycle.experiments.result import RunResult
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks import Task, Training, task_named
from bitcycle.integrations.loggers import open_loggers
from bitcycle.kernels.noise import mix
from bitcycle.scheduler import PrecisionScheduler
from bitcycle.schedules.base import positive

UNWATCHED: AbstractContextManager[None] = nullcontext()


@dataclass
class TrainingProgress:
    """Where a run is."""

    step: int
    steps: int
    loss: float
    metric: float | None
    bits: int | None
    bitops: int


def train(
    run: RunConfig,
    folder: Path | None = None,
    report: Callable[[TrainingProgress], None] = lambda progress: None,
    checkpoint_every: int = 100,
    device: str = "cpu",
    log: Iterable[str] = (),
) -> tuple[RunResult, nn.Module]:
    """Train a run; with a folder, keep a checkpoint there and go on from it if there is one.

    ``log`` names loggers (see :mod:`bitcycle.integrations.loggers`). Returns the result and the trained model,
    restored to a float model with its best weights.
    """
    begun = time.perf_counter()
    positive(checkpoint_every, "the number of steps between checkpoints")
    check_device(device)
    task = task_named(run.task)
    torch.manual_seed(mix(run.seed, 0) >> 1)
    training = task.prepare(run)
    model = training.model.to(device)
    quantize(model, training.recipe, policy=training.policy)
    scheduler = PrecisionScheduler(model, run.schedule, run.steps, run.backward_bits)
    if run.compiled:
        training.model = torch.compile(model)  # type: ignore[assignment]
    course = LearningRatePolicy.of(run.learning_rate, run.steps)
    with Meter(training.model) as meter:
        measurements = Diagnostics(training, model, scheduler, meter, run.seed) if run.diagnostics else None
        state = _State(run, task, training, model, scheduler, meter, measurements)
        if folder is not None:
            state.load(folder)
        logger = open_loggers(log, run, folder, resumed=scheduler.current_step > 0)
        interval = training.evaluation_interval(task.evaluate_every, run.steps)
        for step in range(scheduler.current_step, run.steps):
            model.train()
            torch.manual_seed(mix(run.seed, step, 2) >> 1)
            if course.restarts(step):
                training.optimizer.state.clear()
                training.restarted()
            with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=run.autocast):
                loss = training.loss(step)
            watched = measurements.updating(step) if measurements else UNWATCHED
            update(training, loss, training.learning_rate(*course.place(step)), watched)
            state.losses.append(loss.item())
            bits = scheduler.bits
            scheduler.step()
            last = step + 1 == run.steps
            if last or (step + 1) % interval == 0:
                with _evaluating(model):
                    state.validated(step, bits, training.evaluate("validation"))
                if not course.held(step):
                    training.validated(state.curve[-1]["validation"])
                if measurements:
                    state.curve[-1] |= measurements.take(step + 1)
                logger.log(step + 1, {**state.curve[-1], "bitops": meter.bitops})
            report(TrainingProgress(step + 1, run.steps, loss.item(), state.latest, bits, meter.bitops))
            if folder is not None and (last or (step + 1) % checkpoint_every == 0):
                state.save(folder)
    model.load_state_dict(state.best_weights)
    with _evaluating(model):
        test, extra = training.evaluate("test"), training.extra_metrics("test")
    logger.log(run.steps, {"test": test, **extra})
    logger.close()
    restore(model)
    seconds = state.seconds + time.perf_counter() - begun
    result = RunResult(
        run=run,
        metric=task.metric,
        higher_is_better=task.higher_is_better,
        test=test,
        validation=state.best,
        best_step=state.best_step,
        bitops=meter.bitops,
        seconds=seconds,
        extra=extra,
        curve=state.curve,
        versions=versions(device),
    )
    return result, model


def versions(device: str = "cpu") -> dict[str, str]:
    """Everything besides the run configuration that affects the last digits of a result."""
    return {
        "bitcycle": bitcycle.__version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "device": device,
        "threads": str(torch.get_num_threads()),
    }


def update(
    training: Training, loss: torch.Tensor, factor: float, watched: AbstractContextManager[None] = UNWATCHED
) -> None:
    """One step of the optimiser, at a factor of its learning rate."""
    training.optimizer.zero_grad()
    loss.backward()
    with watched:
        if training.clip is not None:
            nn.utils.clip_grad_norm_(training.model.parameters(), training.clip)
        groups = training.optimizer.param_groups
        rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] *= factor
        training.optimizer.step()
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


class _State:
    """What a checkpoint holds, and the choice by validation."""

    def __init__(
        self,
        run: RunConfig,
        task: Task,
        training: Training,
        model: nn.Module,
        scheduler: PrecisionScheduler,
        meter: Meter,
        measurements: Diagnostics | None,
    ) -> None:
        self.run, self.task, self.model = run, task, model
        self.parts: dict[str, Any] = {
            "model": model,
            "optimizer": training.optimizer,
            "task": training,
            "precision": scheduler,
            "meter": meter,
        }
        if measurements:
            self.parts["measurements"] = measurements
        self.curve: list[dict[str, float]] = []
        self.losses: list[float] = []  # since the last evaluation
        self.best = float("-inf") if task.higher_is_better else float("inf")
        self.best_step = -1
        self.best_weights: dict[str, Any] = {}
        self.seconds = 0.0
        self.begun = time.perf_counter()

    @property
    def latest(self) -> float | None:
        return self.curve[-1]["validation"] if self.curve else None

    def validated(self, step: int, bits: int | None, metric: float) -> None:
        """Note an evaluation; the best weights so far are kept, of equally good ones the later, or simply the last."""
        loss = sum(self.losses) / len(self.losses)
        self.losses.clear()
        self.curve.append({"step": step + 1, "bits": float(bits or 32), "loss": loss, "validation": metric})
        better = metric >= self.best if self.task.higher_is_better else metric <= self.best
        if better or not self.best_weights or self.run.test_weights == "last":
            self.best, self.best_step = metric, step + 1
            self.best_weights = copy.deepcopy(self.model.state_dict())

    def save(self, folder: Path) -> None:
        """Write the checkpoint, whole or not at all."""
        own = {name: getattr(self, name) for name in ("curve", "losses", "best", "best_step", "best_weights")}
        own["seconds"] = self.seconds + time.perf_counter() - self.begun
        parts = {name: part.state_dict() for name, part in self.parts.items()}
        save_checkpoint(folder, self.run.as_dict(), {"own": own, **parts})

    def load(self, folder: Path) -> None:
        """Go on from the checkpoint in the folder, if there is one."""
        found = load_checkpoint(folder, self.run.as_dict())
        if found is None:
            return
        for name, part in self.parts.items():
            part.load_state_dict(found[name])
        vars(self).update(found["own"])
