"""The operations that mark grids in a trace, as ONNX: ``QuantizeLinear``, ``DequantizeLinear``, integers and scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir
import torch
from onnxscript import opset21 as op
from torch import Tensor

from bitcycle._export.placement import Dynamic, OnnxPlacement, WeightToStore
from bitcycle._export.stored_grids import FixedGrid, StoredWeight

OPSET = 21
"""The first opset with 4-bit and 16-bit integers in ``DequantizeLinear``."""

_UNSIGNED = {4: onnx_ir.DataType.UINT4, 8: onnx_ir.DataType.UINT8, 16: onnx_ir.DataType.UINT16}


def translations(placement: OnnxPlacement) -> dict[Any, Callable[..., Any]]:
    """Return how ``torch.onnx.export`` translates the marks of a placement."""

    def translate_weight(x: Any, index: int, transposed: bool) -> Any:
        entry = placement.entries[index]
        assert isinstance(entry, WeightToStore)
        stored = entry.stored()
        if stored is None:
            placement.deviate(entry.site, "the weight has values without a grid, so it is stored in floating point")
            return op.Transpose(x, perm=[1, 0]) if transposed else x
        return _weight(stored)

    def translate_grid(x: Any, index: int) -> Any:
        grid = placement.entries[index]
        if isinstance(grid, Dynamic):
            codes, scale, zero_point = op.DynamicQuantizeLinear(x)
            return op.DequantizeLinear(codes, scale, zero_point)
        assert isinstance(grid, FixedGrid)
        return _on_fixed_grid(x, grid)

    marks = torch.ops.bitcycle
    return {marks.stored_weight.default: translate_weight, marks.fixed_grid.default: translate_grid}


def _weight(stored: StoredWeight) -> Any:
    """``DequantizeLinear`` computes ``codes * scale`` as bitcycle does; what is left to the values is added."""
    symmetric = stored.zero is None and bool((stored.codes < 0).any())
    dtype = onnx_ir.DataType.INT8 if symmetric else _UNSIGNED[stored.bits]
    codes = _integers(stored.codes.numpy(), dtype)
    by_index = stored.axis is not None or stored.scale.numel() == 1
    scale = stored.scale if by_index else torch.ones(1)  # DequantizeLinear has no scales for pairs of indices
    shape = () if scale.numel() == 1 else (-1,)
    zero_point = _integers(np.zeros(scale.numel()).reshape(shape), dtype)  # 0, but onnxruntime wants to see it
    axis = {} if stored.axis is None else {"axis": stored.axis}
    values = op.DequantizeLinear(codes, _constant(scale.reshape(shape)), zero_point, **axis)
    if not by_index:
        values = op.Mul(values, _constant(stored.scale))
    return values if stored.zero is None else op.Add(values, _constant(stored.zero))


def _integers(codes: Any, dtype: onnx_ir.DataType) -> Any:
    return op.Constant(value=onnx_ir.tensor(codes.astype(dtype.numpy()), dtype=dtype))  # type: ignore[arg-type]


def _on_fixed_grid(x: Any, grid: FixedGrid) -> Any:
    if grid.bits < grid.container:  # the integer has more codes than the grid: values beyond its ends must not use them
        x = op.Clip(x, *(_constant(torch.tensor(end)) for end in grid.ends))
    scale, zero_point = (
        _constant(torch.tensor(grid.scale)),
        _integers(np.array(grid.zero_point), _UNSIGNED[grid.container]),
    )
    return op.DequantizeLinear(op.QuantizeLinear(x, scale, zero_point), scale, zero_point)


def _constant(x: Tensor) -> Any:
    return op.Constant(value=onnx_ir.tensor(x.float().contiguous().numpy()))  # type: ignore[arg-type]
