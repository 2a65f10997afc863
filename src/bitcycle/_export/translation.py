"""The operations that mark grids in a trace, as ONNX: ``QuantizeLinear``, ``DequantizeLinear``, integers and scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir
import torch
from onnxscript import opset21 as op
from torch import Tensor

from bitcycle._export.integer_linear import CodesToStore
from bitcycle._export.placement import OnnxPlacement, WeightForm, WeightToStore
from bitcycle._export.stored_grids import FixedGrid, StoredWeight

OPSET = 21
"""The first opset with 4-bit and 16-bit integers in ``DequantizeLinear``."""

_UNSIGNED = {4: onnx_ir.DataType.UINT4, 8: onnx_ir.DataType.UINT8, 16: onnx_ir.DataType.UINT16}
_SIGNED = {4: onnx_ir.DataType.INT4, 8: onnx_ir.DataType.INT8, 16: onnx_ir.DataType.INT16}


def translations(placement: OnnxPlacement) -> dict[Any, Callable[..., Any]]:
    """Return how ``torch.onnx.export`` translates the marks of a placement."""

    def translate_weight(x: Any, index: int, transposed: bool) -> Any:
        entry = placement.entries[index]
        assert isinstance(entry, WeightToStore)
        stored = entry.stored()
        if stored is None:
            placement.deviate(entry.site, "the weight has values without a grid, so it is stored in floating point")
            return _constant(entry.rounded())
        return _weight(stored) if entry.form is WeightForm.EXACT else _codes_times_scale(stored)

    def translate_sums(x: Any, index: int) -> Any:
        entry = placement.entries[index]
        assert isinstance(entry, WeightToStore)
        return _constant(entry.sums())

    def translate_grid(x: Any, index: int) -> Any:
        grid = placement.entries[index]
        assert isinstance(grid, FixedGrid)
        return _on_fixed_grid(x, grid)

    def translate_codes(x: Any, scale: Any, index: int) -> Any:
        entry = placement.entries[index]
        assert isinstance(entry, CodesToStore)
        scales = op.Reshape(scale, op.Constant(value_ints=[-1]))  # type: ignore[arg-type]
        zero_point = op.Expand(_integers(np.array(entry.zero_point), onnx_ir.DataType.UINT8), op.Shape(scales))
        codes = op.QuantizeLinear(x, scales, zero_point, axis=0)
        middle = _integers(np.array(entry.middle), onnx_ir.DataType.UINT8)
        return op.DequantizeLinear(codes, _constant(torch.tensor(1.0)), middle)

    marks = torch.ops.bitcycle
    return {
        marks.stored_weight.default: translate_weight,
        marks.weight_sums.default: translate_sums,
        marks.fixed_grid.default: translate_grid,
        marks.signed_codes.default: translate_codes,
    }


def _weight(stored: StoredWeight) -> Any:
    """Return the values as bitcycle computes them, ``codes * scale``, plus what is left to them.

    A weight that is a ``DequantizeLinear`` and nothing else would let onnxruntime round the activations of its product
    to 8-bit integers (``MatMulNBits``). Without a sum that follows, the scale is therefore an operation of its own.
    """
    if stored.zero is not None:
        return op.Add(_codes_times_scale(stored), _constant(stored.zero))
    return op.Mul(_codes_times_scale(replace(stored, scale=torch.ones(1))), _constant(stored.scale))


def _codes_times_scale(stored: StoredWeight) -> Any:
    dtype = (_SIGNED if stored.signed else _UNSIGNED)[stored.bits]
    codes = _integers(stored.codes.numpy(), dtype)
    by_index = stored.axis is not None or stored.scale.numel() == 1
    scale = stored.scale if by_index else torch.ones(1)  # DequantizeLinear has no scales for pairs of indices
    shape = () if scale.numel() == 1 else (-1,)
    zero_point = _integers(np.zeros(scale.numel()).reshape(shape), dtype)  # 0, but onnxruntime wants to see it
    axis = {} if stored.axis is None else {"axis": stored.axis}
    values = op.DequantizeLinear(codes, _constant(scale.reshape(shape)), zero_point, **axis)
    return values if by_index else op.Mul(values, _constant(stored.scale))


def _integers(codes: Any, dtype: onnx_ir.DataType) -> Any:
    return op.Constant(value=onnx_ir.tensor(codes.astype(dtype.numpy()), dtype=dtype))  # type: ignore[arg-type]


def _on_fixed_grid(x: Any, grid: FixedGrid) -> Any:
    if grid.needs_clipping:
        x = op.Clip(x, *(_constant(torch.tensor(end)) for end in grid.ends))
    scale, zero_point = (
        _constant(torch.tensor(grid.scale)),
        _integers(np.array(grid.zero_point), _UNSIGNED[grid.container]),
    )
    return op.DequantizeLinear(op.QuantizeLinear(x, scale, zero_point), scale, zero_point)


def _constant(x: Tensor) -> Any:
    return op.Constant(value=onnx_ir.tensor(x.float().contiguous().numpy()))  # type: ignore[arg-type]
