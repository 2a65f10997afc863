"""``bitcycle export`` and ``bitcycle deploy-check``: what to do with a trained run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from bitcycle._support.text import table
from bitcycle.cli.parameters import argument, json_option, option

TrainedFolder = Annotated[
    Path, argument("The folder of a run that 'bitcycle train --out FOLDER' has trained.", metavar="FOLDER")
]

OwnTask = Annotated[
    str, option("The source of the run's task, if it is your own: FILE.py:CLASS or package.module:CLASS.")
]


def export(
    folder: TrainedFolder,
    task: OwnTask = "",
    onnx: Annotated[Path | None, option("Write an ONNX file.", metavar="FILE.onnx")] = None,
    weights: Annotated[
        Path | None, option("Write a plain state_dict of float weights on their grids.", metavar="FILE.pt")
    ] = None,
    bits: Annotated[int | None, option("The width; default: q_max of the run's schedule.")] = None,
    kernels: Annotated[
        str,
        option(
            "For ONNX: exact (the values of bitcycle) or integer (onnxruntime multiplies integers).",
            complete=("exact", "integer"),
        ),
    ] = "exact",
) -> None:
    """Write a trained run as an ONNX file or as float weights, and compare it with bitcycle on the test data."""
    import torch

    import bitcycle as bc
    from bitcycle.lab.runs.deployment import any_shape, load_trained, test_inputs

    if onnx is None and weights is None:
        raise ValueError("nothing to write: give --onnx FILE.onnx, --weights FILE.pt, or both")
    _, training = load_trained(folder, task)
    model = training.model
    if bits is not None:
        bc.set_bits(model, evaluate=bits)
    batches = test_inputs(training)
    if weights is not None:
        state = bc.export(model, batches[0])
        torch.save(state, weights)
        print(f"written: {weights}\n{bc.check_weights(state, model, batches)}")
    if onnx is not None:
        found = bc.export_onnx(model, batches[0], onnx, kernels=kernels, dynamic_shapes=any_shape(batches[0]))
        print(f"written: {onnx}\non the first batch of the test data:\n{found}")
        print(f"on all batches of the test data:\n{bc.check_onnx(onnx, model, batches)}")


def deploy_check(
    folder: TrainedFolder,
    task: OwnTask = "",
    bits: Annotated[list[int] | None, option("A width to evaluate at; repeatable; default: 8, 6, 4, 3 and 2.")] = None,
    as_json: Annotated[bool, json_option("an object with the metric by width, full precision as 'full'")] = False,
) -> None:
    """Evaluate a trained run on the test data at the widths it could be deployed at."""
    from bitcycle.lab.runs.deployment import WIDTHS, load_trained, metric_at
    from bitcycle.lab.studies.exports import json_text
    from bitcycle.lab.tasks import task_of

    run, training = load_trained(folder, task)
    found = metric_at(training, (None, *bits) if bits else WIDTHS)
    if as_json:
        print(json_text(found))
    else:
        metric = task_of(run).metric
        print(f"{run.task} trained on {run.schedule}, evaluated on the test data with weights and activations at")
        print(table(["bits", metric], [[width, f"{value:.4f}"] for width, value in found.items()]))
