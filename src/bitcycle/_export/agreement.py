"""How far an ONNX file agrees with the model it was exported from: predictions, values, size and speed."""

from __future__ import annotations

import copy
import tempfile
import timeit
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from bitcycle._export.recording import evaluating
from bitcycle._support.extras import need
from bitcycle.conversion.convert import restore
from bitcycle.conversion.running import CallArguments, run_model

INTEGER_KERNELS = (
    *("QLinearConv", "QLinearMatMul", "MatMulInteger", "ConvInteger", "QGemm"),
    *("MatMulIntegerToFloat", "DynamicQuantizeMatMul"),
)
"""The operations of onnxruntime that multiply integers."""

REPEATS = 9
"""How often each file is timed; the median counts."""


class Deviation(NamedTuple):
    """An operand of a site that the file computes differently from bitcycle, and why."""

    site: str
    reason: str


@dataclass(frozen=True)
class Agreement:
    """How far an exported file agrees with bitcycle's evaluation of the model.

    ``str`` gives a summary of a few lines.
    """

    path: Path
    """The file."""
    predictions: int
    """Number of predictions that were compared: rows of the last dimension of the first output."""
    argmax: float
    """Share of the predictions whose largest element is the same."""
    largest_difference: float
    """The largest difference of any element of any output."""
    relative_difference: float
    """The largest difference, relative to the largest magnitude of an output."""
    integer_kernels: dict[str, int]
    """The operations with which onnxruntime multiplies integers, and their number."""
    size: int
    """Bytes of the file."""
    float_size: int | None = None
    """Bytes of an ONNX file of the float model."""
    milliseconds: dict[str, float] = field(default_factory=dict)
    """Time of one call on the example inputs: of this ``"file"``, of the ``"float file"``, and of ``"torch"``."""
    deviations: tuple[Deviation, ...] = ()
    """What the file computes differently from bitcycle, by site."""

    def __str__(self) -> str:
        share = f" of {self.float_size / 1e6:.2f} MB ({self.size / self.float_size:.0%})" if self.float_size else ""
        kernels = ", ".join(f"{count} {name}" for name, count in self.integer_kernels.items())
        lines = [
            f"{self.path}: {self.argmax:.2%} of {self.predictions:,} predictions equal, largest difference "
            f"{self.largest_difference:.3g} ({self.relative_difference:.2%} of the largest output)",
            f"  size: {self.size / 1e6:.2f} MB{share}",
            f"  integer kernels of onnxruntime: {kernels or 'none'}",
        ]
        if self.milliseconds:
            lines.append("  time per call: " + ", ".join(f"{n} {ms:.2f} ms" for n, ms in self.milliseconds.items()))
        reasons = Counter(deviation.reason for deviation in self.deviations)
        for reason, count in reasons.items():
            example = next(deviation.site for deviation in self.deviations if deviation.reason == reason)
            lines.append(f"  {count} site{'s' if count > 1 else ''} such as {example!r}: {reason}")
        return "\n".join(lines)


def check_onnx(path: str | Path, model: nn.Module, batches: Iterable[Any]) -> Agreement:
    """Compare an ONNX file with bitcycle's evaluation of a converted model.

    Args:
        path: The file, which takes the inputs of the model.
        model: The converted model, which is evaluated at its evaluation bits.
        batches: Inputs, each a tensor, a tuple of arguments or a mapping of keyword arguments.

    Returns:
        The agreement over all batches, without times.

    Raises:
        ValueError: The model is not converted, or there is no batch.
        MissingExtraError: onnxruntime is not installed.

    Example:
        See :func:`bitcycle.export_onnx`.
    """
    path = Path(path)
    session, kernels = open_session(path)

    def run(batch: Any) -> list[Tensor]:
        return [torch.from_numpy(x) for x in session.run(None, feed(session, batch))]

    return replace(_compare(path, model, batches, run), integer_kernels=kernels, size=path.stat().st_size)


def check_weights(state: Mapping[str, Tensor], model: nn.Module, batches: Iterable[Any]) -> Agreement:
    """Compare the float model that has exported weights with bitcycle's evaluation of a converted model.

    They differ by the rounding of activations, which the float model does not do.

    Args:
        state: What :func:`bitcycle.export` returned.
        model: The converted model, which is evaluated at its evaluation bits.
        batches: Inputs, each a tensor, a tuple of arguments or a mapping of keyword arguments.

    Returns:
        The agreement over all batches. Its size is that of the tensors.

    Raises:
        ValueError: The model is not converted, or there is no batch.

    Example:
        >>> import bitcycle as bc
        >>> model = bc.quantize(nn.Linear(4, 2))
        >>> bc.set_bits(model, evaluate=8)
        >>> bc.check_weights(bc.export(model), model, [torch.randn(3, 4)]).predictions
        3
    """
    plain = restore(copy.deepcopy(model)).eval()
    plain.load_state_dict(state)

    def run(batch: Any) -> list[Tensor]:
        with torch.no_grad():
            return outputs_of(run_model(plain, batch))

    size = sum(x.numel() * x.element_size() for x in state.values() if isinstance(x, Tensor))
    return replace(_compare("float weights", model, batches, run), size=size)


def _compare(
    what: Path | str, model: nn.Module, batches: Iterable[Any], run: Callable[[Any], list[Tensor]]
) -> Agreement:
    """Compare what a function computes from batches with bitcycle's evaluation of a model."""
    predictions = equal = 0
    differences, magnitudes = [0.0], [0.0]
    for batch in batches:
        with evaluating(model):
            expected = outputs_of(run_model(model, batch))
        found = run(batch)
        if len(found) > len(expected):  # sizes that the model returns are outputs of a file with dynamic shapes
            found = [x for x in found if x.dim() or x.is_floating_point()]
        if len(found) != len(expected):
            raise ValueError(
                f"{what} has {len(found)} outputs, and the model has {len(expected)}: is it another model?"
            )
        for own, other in zip(expected, found, strict=True):
            difference = (own.double() - other.double()).abs()
            difference[own == other] = 0.0  # infinities
            differences += [float(difference.max())] if own.numel() else []
            magnitudes += [float(own.double().abs()[own.isfinite()].max())] if own.isfinite().any() else []
        first, other_first = (torch.atleast_1d(outputs[0]) for outputs in (expected, found))  # a number is a prediction
        rows = first.shape[:-1].numel()
        predictions += rows
        if rows:
            equal += int((first.argmax(-1) == other_first.argmax(-1)).sum())
    if not predictions:
        raise ValueError("there is nothing to compare: give at least one batch of inputs")
    largest, magnitude = float(np.max(differences)), max(magnitudes)  # the former is NaN if there is one
    return Agreement(Path(what), predictions, equal / predictions, largest, largest / (magnitude or 1.0), {}, 0)


def open_session(model: Path | bytes) -> tuple[Any, dict[str, int]]:
    """Return a session of onnxruntime with torch's number of threads, and the integer kernels of its graph."""
    onnxruntime = need("onnxruntime", "export", "running ONNX files")
    onnx = need("onnx", "export", "reading ONNX files")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = f"{folder}/optimised.onnx"
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        nodes = onnx.load(options.optimized_model_filepath, load_external_data=False).graph.node
    counts = Counter(node.op_type for node in nodes)
    return session, {name: counts[name] for name in INTEGER_KERNELS if counts[name]}


def feed(session: Any, inputs: Any) -> dict[str, Any]:
    """Return the inputs of a model by the names they have in a file: keyword arguments keep theirs."""
    names = [given.name for given in session.get_inputs()]
    call = CallArguments.of(inputs)
    values = [x for x in tree_leaves(call.positional) if isinstance(x, Tensor)]
    free = [name for name in names if name not in call.keywords]
    fed = {**dict(zip(free, values, strict=False)), **{n: x for n, x in call.keywords.items() if n in names}}
    if set(fed) != set(names):
        given = len(values) + len(call.keywords)
        raise ValueError(f"the file needs the inputs {', '.join(names)}, and got {given} tensors")
    return {name: x.detach().cpu().numpy() for name, x in fed.items()}


def outputs_of(result: Any) -> list[Tensor]:
    """Return the tensors of a model's result, in order."""
    return [x.detach() for x in tree_leaves(result) if isinstance(x, Tensor)]


def milliseconds(run: Callable[[], Any]) -> float:
    """Return the median time of a call."""
    run()
    return 1000 * median(timeit.repeat(run, number=1, repeat=REPEATS))
