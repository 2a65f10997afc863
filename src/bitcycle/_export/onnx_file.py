"""ONNX files of trained models."""

from __future__ import annotations

import copy
import logging
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bitcycle._export.agreement import Agreement, Deviation, check_onnx, feed, milliseconds, open_session
from bitcycle._export.recording import evaluating, record
from bitcycle._support.extras import need
from bitcycle.arithmetic.export_rounding import exporting_with
from bitcycle.conversion.convert import restore
from bitcycle.conversion.running import CallArguments, run_model


def export_onnx(
    model: nn.Module,
    example_inputs: Any,
    path: str | Path,
    *,
    calibration: Iterable[Any] | None = None,
    kernels: str = "exact",
    dynamic_shapes: Any = None,
    compare_float: bool = True,
) -> Agreement:
    """Write a converted model to an ONNX file at its evaluation bits, and compare the file with the model.

    Weights are stored as integers with a ``DequantizeLinear``. With ``kernels="exact"`` their values are unchanged, and
    activations are rounded on grids that follow each tensor or row, as in bitcycle's evaluation. With
    ``kernels="integer"``, weights and activations have 8-bit codes, so that onnxruntime multiplies integers; see
    ``docs/export.md`` for what this changes.

    Args:
        model: A converted model with evaluation bits.
        example_inputs: A tensor, a tuple of arguments, or a mapping of keyword arguments. The file has their shapes,
            except where ``dynamic_shapes`` says otherwise, and it is compared with the model on them.
        path: Where to write the file.
        calibration: Batches of inputs like ``example_inputs``, for integer kernels: the ranges of the inputs and
            results of convolutions are fixed to what these batches have, or else to what the example inputs have.
        kernels: ``"exact"`` or ``"integer"``.
        dynamic_shapes: Which dimensions of the inputs may change, as in ``torch.export.export``.
        compare_float: Also write a file of the float model, to compare size and speed with it.

    Returns:
        How far the file agrees with the model.

    Raises:
        ValueError: The model is not converted, its evaluation bits were never set, it does not compute in
            float32, or an argument is invalid.
        MissingExtraError: A library that the export needs is not installed.

    Example:
        >>> import bitcycle as bc
        >>> model = bc.quantize(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)))
        >>> bc.set_bits(model, evaluate=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     agreement = bc.export_onnx(model, torch.randn(4, 8), folder + "/model.onnx")
        >>> agreement.argmax, agreement.largest_difference < 1e-5
        (1.0, True)
    """
    for module in ("onnx", "onnxscript", "onnxruntime"):
        need(module, "export", "the export to ONNX")
    if kernels not in ("exact", "integer"):
        raise ValueError(f"kernels must be 'exact' or 'integer', got {kernels!r}")
    if calibration is not None and kernels == "exact":
        raise ValueError("exact kernels have no fixed ranges: give calibration with kernels='integer' only")
    from bitcycle._export.integer_convolutions import quantize_convolutions
    from bitcycle._export.onnx_rounding import OnnxRounding

    path, integer = Path(path), kernels == "integer"
    with evaluating(model):
        batches = [example_inputs] if calibration is None else list(calibration)
        recording = record(model, batches)
        for dtype, site in recording.dtypes.items():
            if dtype is not torch.float32:
                raise ValueError(  # onnxruntime cannot run such a file
                    f"{site.name or 'the model'} computes in {dtype}, and only float32 can be exported: convert the "
                    "model and its inputs with .float() first"
                )
        rounding = OnnxRounding(recording, integer)
        results: list[Deviation] = []
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            unfinished = Path(folder) / path.name
            with exporting_with(rounding):
                _write(model, example_inputs, unfinished, dynamic_shapes, rounding.translations())
            if integer:
                results = quantize_convolutions(unfinished, batches)
            agreement = check_onnx(unfinished, model, [example_inputs])
            agreement = replace(agreement, path=path, size=_size(folder))
            # The weights of a large model are in a file beside it, which has to be there first.
            for part in sorted(Path(folder).iterdir(), key=lambda part: part == unfinished):
                part.replace(path.with_name(part.name))
    agreement = replace(agreement, deviations=(*rounding.deviations, *results))
    return _with_speed(agreement, model, example_inputs, dynamic_shapes) if compare_float else agreement


def _with_speed(agreement: Agreement, model: nn.Module, inputs: Any, dynamic_shapes: Any) -> Agreement:
    """Add the size and the speed of a file of the float model, and the speed of the float model itself."""
    plain = restore(copy.deepcopy(model)).eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        float_path = Path(folder) / "float.onnx"
        _write(plain, inputs, float_path, dynamic_shapes, {})
        times = {}
        for name, path in (("file", agreement.path), ("float file", float_path)):
            session, _ = open_session(path)
            fed = feed(session, inputs)
            times[name] = milliseconds(partial(session.run, None, fed))
        times["torch"] = milliseconds(lambda: run_model(plain, inputs))
        return replace(agreement, float_size=_size(folder), milliseconds=times)


def _size(folder: str) -> int:
    return sum(part.stat().st_size for part in Path(folder).iterdir())


def _write(model: nn.Module, inputs: Any, path: Path, dynamic_shapes: Any, translations: dict[Any, Any]) -> None:
    from bitcycle._export.onnx_operations import OPSET

    call = CallArguments.of(inputs)
    with _quiet():
        # The trace runs in Python: a compiler would not see the rounding.
        traced = torch.export.export(model, call.positional, call.keywords, dynamic_shapes=dynamic_shapes, strict=False)
        program = torch.onnx.export(
            traced, dynamo=True, opset_version=OPSET, custom_translation_table=translations, verbose=False
        )
    assert program is not None
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # where each came from in the source: larger than a small model
        node.doc_string = None
    program.save(path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the progress and the warnings of the exporter, which the user can do nothing about."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
