"""Trained runs as they would be deployed: load one from its folder, and evaluate it at other widths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bitcycle.conversion.convert import quantize, set_bits
from bitcycle.experiments.checkpoints import read_checkpoint
from bitcycle.experiments.data.splits import Split
from bitcycle.experiments.run_config import RunConfig
from bitcycle.experiments.tasks import Training, task_of
from bitcycle.kernels.noise import mix
from bitcycle.schedules import schedule as as_schedule

WIDTHS: tuple[int | None, ...] = (None, 8, 6, 4, 3, 2)
"""The widths at which a trained model is evaluated by default."""


def load_trained(folder: Path) -> tuple[RunConfig, Training]:
    """Return a trained run from the folder in which ``bitcycle train --out`` trained it.

    Args:
        folder: The folder with the checkpoint. The training must have ended.

    Returns:
        The configuration of the run, and its training with the converted model: the weights that were tested, in
        evaluation mode, at the schedule's q_max.

    Raises:
        ValueError: The folder has no checkpoint, or the training has not ended.
    """
    content = read_checkpoint(folder)
    if content is None:
        raise ValueError(f"{folder} has no checkpoint: train with 'bitcycle train TASK --out {folder}' first")
    run = RunConfig.from_dict(content["run"])
    step = content["state"]["precision"]["step"]
    if step < run.steps:
        raise ValueError(f"the training in {folder} has done {step} of {run.steps} steps: continue it first")
    return run, prepare_trained(run, content["state"]["own"]["best_weights"])


def prepare_trained(run: RunConfig, weights: Mapping[str, Any]) -> Training:
    """Return the training of a run with its converted model in evaluation mode, at the schedule's q_max.

    Args:
        run: The configuration of the run.
        weights: The ``state_dict`` of the trained model.
    """
    torch.manual_seed(mix(run.seed, 0) >> 1)
    training = task_of(run).prepare(run)
    recipe = replace(training.recipe, grid=run.grid)
    quantize(training.model, recipe, keep=training.keep, policy=training.policy)
    set_bits(training.model, evaluate=as_schedule(run.schedule).limits(run.steps)[1])
    training.model.load_state_dict(weights)
    training.model.eval()
    return training


def metric_at(training: Training, widths: Iterable[int | None] = WIDTHS, split: Split = Split.TEST) -> dict[str, float]:
    """Evaluate a trained model at several widths of weights and activations.

    Args:
        training: What :func:`prepare_trained` returned.
        widths: The evaluation bits; ``None`` is full precision.
        split: The data to evaluate on.

    Returns:
        The task's metric by width; the name of full precision is ``"full"``.
    """
    found = {}
    with torch.no_grad():
        for bits in widths:
            set_bits(training.model, evaluate=bits)
            found["full" if bits is None else str(bits)] = training.evaluate(split)
    return found
