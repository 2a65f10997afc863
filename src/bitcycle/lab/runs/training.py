"""The training loop that all tasks share.

It trains on a precision schedule, evaluates on the validation set at intervals, and evaluates on the test set once, at
the end. Everything random is a function of (seed, step), and everything else is in the checkpoint: a run that is killed
at any moment and resumed ends with exactly the same weights and results as an uninterrupted one.
"""

from __future__ import annotations

import copy
import platform
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import nn

import bitcycle
from bitcycle._cost import Meter
from bitcycle.arithmetic.execution import Execution, resolve
from bitcycle.conversion.convert import quantize, restore, set_execution
from bitcycle.kernels.native import current_kernels
from bitcycle.kernels.noise import mix
from bitcycle.lab.data.splits import Split
from bitcycle.lab.format import format_error
from bitcycle.lab.runs.checkpoints import load_checkpoint, save_checkpoint
from bitcycle.lab.runs.diagnostics import Diagnostics
from bitcycle.lab.runs.learning_rate import LearningRatePolicy
from bitcycle.lab.runs.loggers import LoggedRun, open_loggers
from bitcycle.lab.runs.result import TEST_LOSS, RunResult
from bitcycle.lab.runs.run_config import RunConfig, WeightChoice
from bitcycle.lab.tasks import Task, Training, task_of
from bitcycle.scheduler import PrecisionScheduler
from bitcycle.schedules.base import validate_integer

UNOBSERVED: AbstractContextManager[None] = nullcontext()
OWN = ("curve", "losses", "best", "best_step", "best_weights", "seconds")
"""What a checkpoint holds besides the states of the model, the optimiser, ..."""


@dataclass
class TrainingProgress:
    """The progress of a run after a step."""

    step: int
    """Steps that are done."""
    steps: int
    """Steps of the whole run."""
    loss: float
    """The training loss of this step."""
    metric: float | None
    """The latest validation metric; ``None`` before the first evaluation."""
    bits: int | None
    """The bits of this step; ``None`` for full precision."""
    bitops: int
    """The training cost so far."""


def train(
    run: RunConfig,
    folder: Path | None = None,
    report: Callable[[TrainingProgress], None] = lambda progress: None,
    checkpoint_every: int = 100,
    device: str = "cpu",
    log: Iterable[str] = (),
    execute: str = "auto",
) -> tuple[RunResult, nn.Module]:
    """Train a run and test it.

    Args:
        run: The configuration of the run.
        folder: Where to keep the checkpoint and the files of loggers. If the folder has a checkpoint of this run, the
            training resumes from it.
        report: Called after every step.
        checkpoint_every: Steps between checkpoints.
        device: The torch device to train on.
        log: Names of loggers, see :mod:`bitcycle.lab.runs.loggers`. They need a folder.
        execute: How products are computed, see :func:`bitcycle.quantize`. It is resolved once, at the start of the run;
            a run that resumes goes on as it began.

    Returns:
        The result, and the trained model, restored to a float model with the weights that were tested.

    Raises:
        ValueError: If the task, model, data, schedule, device or a logger cannot be used, if the folder has a
            checkpoint of another run, or if the run began with an execution that this machine does not have.

    Example:
        >>> run = RunConfig("image", "CR:3-8:cycles=2", steps=4, batch_size=16)
        >>> result, model = train(run)
        >>> result.metric, 0 <= result.test <= 1, [point["step"] for point in result.curve]
        ('accuracy', True, [4])
    """
    started = time.perf_counter()
    validate_integer(checkpoint_every, "the number of steps between checkpoints")
    check_device(device)
    folder = folder and folder.absolute()  # a task may change the working directory
    task = task_of(run)
    execution = resolve(execute)
    training = prepare(run, device, execution.value)
    model = training.model
    scheduler = PrecisionScheduler(model, run.schedule, run.steps, run.backward_bits, **run.condition.overrides)
    if run.compiled:
        training.model = torch.compile(model)  # type: ignore[assignment]
    policy = LearningRatePolicy.of(run.learning_rate, run.steps)
    with Meter(training.model) as meter:
        parts = {
            "model": model,
            "optimizer": training.optimizer,
            "task": training,
            "precision": scheduler,
            "meter": meter,
        }
        diagnostics = None
        if run.diagnostics:
            parts["diagnostics"] = diagnostics = Diagnostics(training, model, scheduler, meter, run.seed)
        state = _State(run, task, execution, parts)
        if folder is not None:
            state.load(folder)
        logged = LoggedRun(run.name, f"{run.task} {run.description} seed {run.seed}", run.as_dict())
        logger = open_loggers(log, logged, folder, resumed=scheduler.current_step > 0)
        interval = training.evaluation_interval(task.evaluate_every, run.steps)
        for step in range(scheduler.current_step, run.steps):
            model.train()
            torch.manual_seed(mix(run.seed, step, 2) >> 1)
            if policy.restarts(step):
                training.optimizer.state.clear()
                training.restarted()
            with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=run.autocast):
                loss = training.loss(step)
            observer = diagnostics.observe_update(step) if diagnostics else UNOBSERVED
            update(training, loss, training.learning_rate(*policy.position(step)), observer)
            state.losses.append(loss.item())
            bits, last = scheduler.bits, step + 1 == run.steps
            evaluates = last or (step + 1) % interval == 0
            if evaluates:  # at the bits of this step, if the run is evaluated at its current bits
                model.eval()
                state.add_evaluation(step, bits, training.evaluate(Split.VALIDATION))
            scheduler.step()
            if evaluates:
                if not policy.held(step):
                    training.validated(state.curve[-1]["validation"])
                if diagnostics:
                    state.curve[-1] |= diagnostics.measure(step + 1)
                logger.log(step + 1, {**state.curve[-1], "bitops": meter.bitops})
            report(TrainingProgress(step + 1, run.steps, loss.item(), state.latest, bits, meter.bitops))
            if folder is not None and (last or (step + 1) % checkpoint_every == 0):
                state.save(folder)
    model.load_state_dict(state.best_weights)
    model.eval()
    test, extra, losses = training.test()
    if losses is not None:
        extra[TEST_LOSS] = float(losses.double().mean())
    logger.log(run.steps, {"test": test, **extra})
    logger.close()
    restore(model)
    result = RunResult(
        run=run,
        metric=task.metric,
        higher_is_better=task.higher_is_better,
        test=test,
        validation=state.best,
        best_step=state.best_step,
        bitops=meter.bitops,
        seconds=state.seconds + time.perf_counter() - started,
        extra=extra,
        curve=state.curve,
        example_losses=None if losses is None else losses.float().cpu().numpy(),
        versions=versions(device) | {"execution": state.execution.value},
    )
    return result, model


def prepare(run: RunConfig, device: str = "cpu", execute: str = "auto", **recipe: Any) -> Training:
    """Return the training of a run with its model converted, before its first step.

    Args:
        run: The configuration of the run.
        device: The torch device to train on.
        execute: How products are computed, see :func:`bitcycle.quantize`.
        **recipe: Changes of the recipe, beside those of the run.
    """
    torch.manual_seed(mix(run.seed, 0) >> 1)
    task = task_of(run)
    task.chosen_options(run)  # a task without options does not check them itself
    training = task.prepare(run)
    chosen = replace(training.recipe, **{**run.condition.recipe_changes, **recipe})
    quantize(training.model.to(device), chosen, keep=training.keep, policy=training.policy, execute=execute)
    return training


def check_device(name: str) -> None:
    """Raise a ValueError with a one-line message if tensors cannot be created on a device.

    Example:
        >>> check_device("cpu")
    """
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise ValueError(f"the device {name!r} cannot be used here: {reason}") from None


def versions(device: str = "cpu") -> dict[str, str]:
    """Return everything besides the run configuration that affects the last digits of a result."""
    return {
        "bitcycle": bitcycle.__version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "device": device,
        "threads": str(torch.get_num_threads()),
        "kernels": current_kernels(),
    }


def update(
    training: Training, loss: torch.Tensor, factor: float, observer: AbstractContextManager[None] = UNOBSERVED
) -> None:
    """Do one optimiser step.

    Args:
        training: The training whose weights are updated.
        loss: The loss of the step.
        factor: Multiplies the learning rate of the optimiser for this step.
        observer: Entered after the backward pass and left after the step.
    """
    training.optimizer.zero_grad()
    loss.backward()
    with observer:
        if training.clip is not None:
            nn.utils.clip_grad_norm_(training.model.parameters(), training.clip)
        groups = training.optimizer.param_groups
        rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] *= factor
        training.optimizer.step()
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate


class _State:
    """The content of a checkpoint, and the choice of the weights to test."""

    def __init__(self, run: RunConfig, task: Task, execution: Execution, parts: dict[str, Any]) -> None:
        self.run, self.task, self.execution = run, task, execution
        self.parts = parts
        """Everything with a ``state_dict``, by its name in the checkpoint."""
        self.curve: list[dict[str, float]] = []
        self.losses: list[float] = []  # since the last evaluation
        self.best = float("-inf") if task.higher_is_better else float("inf")
        self.best_step = -1
        self.best_weights: dict[str, Any] = {}
        self.seconds = 0.0
        self.started = time.perf_counter()

    @property
    def latest(self) -> float | None:
        return self.curve[-1]["validation"] if self.curve else None

    def add_evaluation(self, step: int, bits: int | None, metric: float) -> None:
        """Append a point to the curve, and keep the weights if they are the ones to test so far."""
        loss = sum(self.losses) / len(self.losses)
        self.losses.clear()
        self.curve.append({"step": step + 1, "bits": float(bits or 32), "loss": loss, "validation": metric})
        better = metric >= self.best if self.task.higher_is_better else metric <= self.best
        if better or not self.best_weights or self.run.test_weights is WeightChoice.LAST:
            self.best, self.best_step = metric, step + 1
            self.best_weights = copy.deepcopy(self.parts["model"].state_dict())

    def save(self, folder: Path) -> None:
        own = {name: getattr(self, name) for name in OWN}
        own["seconds"] += time.perf_counter() - self.started
        parts = {name: part.state_dict() for name, part in self.parts.items()}
        save_checkpoint(folder, self.run.as_dict(), {"own": own, "execution": self.execution.value, **parts})

    def load(self, folder: Path) -> None:
        """Restore the checkpoint of the folder, if it has one."""
        checkpoint = load_checkpoint(folder, self.run.as_dict())
        if checkpoint is None:
            return
        began = checkpoint.get("execution")
        try:
            self.execution = resolve(str(began))
        except ValueError:
            raise ValueError(
                f"the run in {folder} began with the execution {began!r}, which this machine does not have: "
                "continue it where it began, or choose another folder"
            ) from None
        set_execution(self.parts["model"], self.execution)
        try:
            own = {name: checkpoint["own"][name] for name in OWN}
            for name, part in self.parts.items():
                part.load_state_dict(checkpoint[name])
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise ValueError(
                f"the checkpoint in {folder} does not fit this run: choose another folder ({format_error(error)[:200]})"
            ) from error
        vars(self).update(own)
