"""Trained runs as they would be deployed: load one from its folder, and evaluate it at other widths."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from bitcycle.arithmetic.site import write_bits
from bitcycle.conversion.convert import set_bits
from bitcycle.conversion.sites import sites
from bitcycle.lab.data.splits import Split
from bitcycle.lab.runs.checkpoints import read_checkpoint
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.runs.training import prepare
from bitcycle.lab.tasks import Training
from bitcycle.lab.tasks.user_tasks import load_task

Inputs = tuple[Any, ...] | dict[str, Any]
"""The positional or the keyword arguments of a call of a model."""

WIDTHS: tuple[int | None, ...] = (None, 8, 6, 4, 3, 2)
"""The widths at which a trained model is evaluated by default."""


def load_trained(folder: Path, reference: str = "") -> tuple[RunConfig, Training]:
    """Return a trained run from the folder in which ``bitcycle train --out`` trained it.

    Args:
        folder: The folder with the checkpoint. The training must have ended.
        reference: The user's own task, such as ``my_task.py:MyTask``: checkpoints hold no code. If its source has
            changed since the training, a line about it is logged.

    Returns:
        The configuration of the run, and its training with the converted model: the weights that were tested, in
        evaluation mode, at the bits that they were tested at.

    Raises:
        ValueError: The folder has no checkpoint, the training has not ended, the task is not the one that was trained,
            or its model has other weights.
    """
    content = read_checkpoint(folder)
    if content is None:
        raise ValueError(f"{folder} has no checkpoint: train with 'bitcycle train TASK --out {folder}' first")
    run = RunConfig.from_dict(content["run"])
    step = content["state"]["precision"]["step"]
    if step < run.steps:
        raise ValueError(f"the training in {folder} has done {step} of {run.steps} steps: continue it first")
    run = _with_source(run, reference, folder)
    try:
        return run, prepare_trained(run, content["state"]["own"]["best_weights"])
    except RuntimeError as error:
        if not str(error).startswith("Error(s) in loading state_dict"):
            raise
        raise ValueError(f"the model of the task {run.task} has changed: it has other weights than {folder}") from error


def _with_source(run: RunConfig, reference: str, folder: Path) -> RunConfig:
    """Return a run with the source of the user's task as it is now."""
    if not run.source:
        if reference:
            raise ValueError(f"{folder} holds a run of the built-in task {run.task}: leave --task out")
        return run
    if not reference:
        raise ValueError(f"{folder} holds a run of your own task {run.task}: name its source, --task FILE.py:CLASS")
    task = load_task(reference)
    if task.name != run.task:
        raise ValueError(f"{folder} holds a run of the task {run.task}, and {reference} is the task {task.name}")
    if task.source != run.source:
        logging.getLogger("bitcycle").warning(
            "the source of %s has changed since the training in %s", reference, folder
        )
    return replace(run, source=task.source)


def prepare_trained(run: RunConfig, weights: Mapping[str, Any]) -> Training:
    """Return the training of a run with its converted model in evaluation mode, at the bits that the run was tested at.

    Args:
        run: The configuration of the run.
        weights: The ``state_dict`` of the trained model.
    """
    training = prepare(run, evaluate_at="max")  # its evaluation bits are set here
    weight_bits, activation_bits = run.schedules.evaluation(run.steps)
    strength = 1.0
    if run.evaluate_at == "current":
        weight_bits, activation_bits, _, strength = run.schedules.at(run.steps - 1, run.steps)
    write_bits(
        sites(training.model).values(),
        evaluate_weights=weight_bits,
        evaluate_activations=activation_bits,
        evaluate_strength=strength,
    )
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


def test_inputs(training: Training) -> list[Inputs]:
    """Return the arguments that a trained model is called with when it is evaluated on the test data.

    Calls with other arguments than the first, such as the state that a recurrent model carries on, are left out.

    Raises:
        ValueError: The model is not called as a whole, or with both positional and keyword arguments.
    """
    calls: list[Inputs] = []

    def remember(module: Any, positional: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if positional and keywords:
            raise ValueError("the model is called with both positional and keyword arguments: pass one kind")
        calls.append(positional or keywords)

    handle = training.model.register_forward_pre_hook(remember, with_kwargs=True)
    try:
        with torch.no_grad():
            training.evaluate(Split.TEST)
    finally:
        handle.remove()
    if not calls:
        raise ValueError("the task does not call its model as a whole on the test data: there are no inputs for it")
    return [call for call in calls if _structure(call) == _structure(calls[0])]


def any_shape(inputs: Inputs) -> Any:
    """Return dynamic shapes for an export in which every dimension may change that the model lets change."""
    return tree_map(
        lambda x: dict.fromkeys(range(x.dim()), torch.export.Dim.AUTO) if isinstance(x, Tensor) else None, inputs
    )


def _structure(call: Inputs) -> Any:
    leaves, structure = tree_flatten(call)
    return structure, [type(leaf) for leaf in leaves]
