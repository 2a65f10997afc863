"""Convolutions that onnxruntime runs in integers: their results need a grid too, and no normalisation in between.

onnxruntime replaces a convolution by ``QLinearConv`` only if its result is quantised at once. A batch normalisation
that follows is therefore folded into the scales of the weight, which changes no value, and a result that does not go
straight (or through a ReLU) to the grid of the next site gets an 8-bit grid of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from bitcycle._export.agreement import Deviation, feed, open_session
from bitcycle._export.recording import Range
from bitcycle._export.stored_grids import MIDDLE, FixedGrid
from bitcycle.kernels.rounding import BYTE_BITS


def quantize_convolutions(path: Path, batches: Iterable[Any]) -> list[Deviation]:
    """Change a file in place so that its convolutions on grids are integer convolutions.

    Args:
        path: A file in which the operands of convolutions are on fixed 8-bit grids.
        batches: Inputs, from which the ranges of results are taken.

    Returns:
        The results that have got a grid of their own, and the convolutions that stay in floating point.
    """
    model = ir.load(path)
    convolutions = [node for node in model.graph if node.op_type == "Conv" and _is_stored_in_bytes(node)]
    for node in convolutions:
        _fold_normalisation(model.graph, node)
    results = [result for result in map(_result, convolutions) if not _goes_to_a_grid(result)]
    inner = [result for result in results if not result.is_graph_output()]
    ranges = _ranges(model, inner, batches) if inner else {}
    deviations = []
    for result in results:
        found = ranges.get(result.name)
        if found is None:
            reason = "float kernel: the result is an output of the model"
        elif not found.is_finite:
            reason = "float kernel: the range of the result is not finite"
        else:
            reason = "the result has an 8-bit grid of its own, for the integer kernel"
            _put_on_grid(model.graph, result, FixedGrid.of(found, BYTE_BITS))
        deviations.append(Deviation(str(result.name), reason))
    RemoveUnusedNodesPass()(model)  # what was folded: onnxruntime warns of each constant that nothing uses
    ir.save(model, path)
    return deviations


def _is_stored_in_bytes(convolution: ir.Node) -> bool:
    """Return whether the weight is one that integer kernels support: bytes and nothing but a scale."""
    weight = _producer(convolution.inputs[1])
    return weight.op_type == "DequantizeLinear" and weight.inputs[0].dtype is ir.DataType.UINT8  # type: ignore[union-attr]


def _producer(value: ir.Value | None) -> ir.Node:
    """Return the operation that makes a value."""
    assert value is not None
    producer = value.producer()
    assert producer is not None
    return producer


def _only_user(value: ir.Value) -> ir.Node | None:
    users = [use.node for use in value.uses()]
    return users[0] if len(users) == 1 and not value.is_graph_output() else None


def _fold_normalisation(graph: ir.Graph, convolution: ir.Node) -> None:
    """Multiply the scales of the weight, and the bias, by the factors of a batch normalisation that follows."""
    norm = _only_user(convolution.outputs[0])
    weight = _producer(convolution.inputs[1])
    if norm is None or norm.op_type != "BatchNormalization" or _only_user(weight.outputs[0]) is None:
        return
    gamma, beta, mean, variance = (_numbers(value) for value in norm.inputs[1:5])
    epsilon = norm.attributes.get_float("epsilon", 1e-5)
    factor = gamma / np.sqrt(variance + epsilon)
    bias = _numbers(convolution.inputs[2]) if len(convolution.inputs) > 2 and convolution.inputs[2] else 0.0
    codes, scale = _numbers(weight.inputs[0]), np.broadcast_to(_numbers(weight.inputs[1]), factor.shape)
    negative = (factor < 0).reshape(-1, *[1] * (codes.ndim - 1))  # a scale is positive: the codes change their sign
    codes = np.where(negative, 2 * MIDDLE - codes.astype(int), codes).astype(np.uint8)
    name = weight.outputs[0].name
    tiny = np.finfo(np.float32).tiny
    weight.replace_input_with(0, _constant(graph, f"{name}_codes", codes))
    weight.replace_input_with(1, _constant(graph, f"{name}_scale", np.maximum(scale * np.abs(factor), tiny)))
    weight.replace_input_with(2, _constant(graph, f"{name}_zero_point", np.full(factor.shape, MIDDLE, np.uint8)))
    weight.attributes["axis"] = ir.AttrInt64("axis", 0)
    convolution.resize_inputs(3)
    convolution.replace_input_with(2, _constant(graph, f"{name}_bias", beta + (bias - mean) * factor))
    norm.outputs[0].replace_all_uses_with(convolution.outputs[0], replace_graph_outputs=True)
    graph.remove(norm, safe=True)


def _result(convolution: ir.Node) -> ir.Value:
    """Return the result of a convolution, after a ReLU that the runtime makes part of it."""
    following = _only_user(convolution.outputs[0])
    return following.outputs[0] if following is not None and following.op_type == "Relu" else convolution.outputs[0]


def _goes_to_a_grid(result: ir.Value) -> bool:
    user = _only_user(result)
    return user is not None and user.op_type == "QuantizeLinear"


def _ranges(model: ir.Model, results: list[ir.Value], batches: Iterable[Any]) -> dict[str | None, Range]:
    """Run the model with these values as further outputs, and return their ranges by name."""
    own = list(model.graph.outputs)
    model.graph.outputs.extend(results)
    try:
        session, _ = open_session(ir.to_proto(model).SerializeToString())
    finally:
        model.graph.outputs[:] = own
    names = [result.name for result in results]
    found: dict[str | None, Range] = {}
    for batch in batches:
        for name, values in zip(names, session.run(names, feed(session, batch)), strict=True):
            of_batch = Range(float(values.min()), float(values.max()))
            found[name] = of_batch.joined(found.get(name, of_batch))
    return found


def _put_on_grid(graph: ir.Graph, value: ir.Value, grid: FixedGrid) -> None:
    scale = _constant(graph, f"{value.name}_scale", np.array(grid.scale, np.float32))
    zero_point = _constant(graph, f"{value.name}_zero_point", np.array(grid.zero_point, np.uint8))
    quantised = ir.node("QuantizeLinear", [value, scale, zero_point])
    restored = ir.node("DequantizeLinear", [quantised.outputs[0], scale, zero_point])
    restored.outputs[0].shape, restored.outputs[0].type = value.shape, value.type
    for user, index in [(use.node, use.idx) for use in value.uses() if use.node is not quantised]:
        user.replace_input_with(index, restored.outputs[0])
    graph.insert_after(_producer(value), [quantised, restored])


def _constant(graph: ir.Graph, name: str, numbers: Any) -> ir.Value:
    array = np.asarray(numbers)
    value = ir.val(name, const_value=ir.tensor(array.astype(np.float32) if array.dtype.kind == "f" else array))
    graph.register_initializer(value)
    return value


def _numbers(value: ir.Value | None) -> Any:
    assert value is not None
    tensor = ir.convenience.get_const_tensor(value)
    assert tensor is not None
    return tensor.numpy()
