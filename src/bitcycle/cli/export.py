"""``bitcycle export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bitcycle.cli.parameters import completion

TrainedFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder of a run that 'bitcycle train --out FOLDER' has trained.")
]

OwnTask = Annotated[
    str, typer.Option(help="The source of the run's task, if it is your own: FILE.py:CLASS or package.module:CLASS.")
]


def export(
    folder: TrainedFolder,
    task: OwnTask = "",
    onnx: Annotated[Path | None, typer.Option(help="Write an ONNX file.", metavar="FILE.onnx")] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Write a plain state_dict of float weights on their grids.", metavar="FILE.pt"),
    ] = None,
    bits: Annotated[int | None, typer.Option(help="The width; default: q_max of the run's schedule.")] = None,
    kernels: Annotated[
        str,
        typer.Option(
            help="For ONNX: exact (the values of bitcycle) or integer (onnxruntime multiplies integers).",
            autocompletion=completion(("exact", "integer")),
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
