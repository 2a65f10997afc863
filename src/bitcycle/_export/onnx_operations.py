"""Grids as ONNX operations: ``QuantizeLinear``, ``DequantizeLinear``, integers and scales."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir
import torch
from onnxscript import opset21 as op
from torch import Tensor

from bitcycle._export.stored_grids import MIDDLE, FixedGrid, StoredWeight
from bitcycle.kernels.rounding import BYTE_BITS

OPSET = 21
"""The first opset with 4-bit and 16-bit integers in ``DequantizeLinear``."""

_UNSIGNED = {4: onnx_ir.DataType.UINT4, 8: onnx_ir.DataType.UINT8, 16: onnx_ir.DataType.UINT16}
_SIGNED = {4: onnx_ir.DataType.INT4, 8: onnx_ir.DataType.INT8, 16: onnx_ir.DataType.INT16}


def float_weight(stored: StoredWeight) -> Any:
    """Return the values as bitcycle computes them, ``codes * scale``, plus what is left to them.

    A weight that is a ``DequantizeLinear`` and nothing else would let onnxruntime round the activations of its product
    to 8-bit integers (``MatMulNBits``). Without a sum that follows, the scale is therefore an operation of its own.
    """
    if stored.zero is not None:
        return op.Add(_codes_times_scale(stored), constant(stored.zero))
    return op.Mul(_codes_times_scale(replace(stored, scale=torch.ones(1))), constant(stored.scale))


def integer_weight(stored: StoredWeight) -> Any:
    """Return signed 8-bit codes times their scales, as integer kernels need them: unsigned, with a zero point.

    On x86 processors without VNNI, onnxruntime adds two products of an unsigned and a signed byte in 16 bits, which
    saturate. Products of unsigned bytes are exact everywhere.
    """
    return _codes_times_scale(replace(stored, codes=stored.codes + MIDDLE, signed=False), zero_point=MIDDLE)


def _codes_times_scale(stored: StoredWeight, zero_point: int = 0) -> Any:
    dtype = (_SIGNED if stored.signed else _UNSIGNED)[stored.bits]
    codes = _integers(stored.codes.numpy(), dtype)
    by_index = stored.axis is not None or stored.scale.numel() == 1
    scale = stored.scale if by_index else torch.ones(1)  # DequantizeLinear has no scales for pairs of indices
    shape = () if scale.numel() == 1 else (-1,)
    zero_points = _integers(np.full(scale.numel(), zero_point).reshape(shape), dtype)  # onnxruntime needs zeros, too
    axis = {} if stored.axis is None else {"axis": stored.axis}
    values = op.DequantizeLinear(codes, constant(scale.reshape(shape)), zero_points, **axis)
    return values if by_index else op.Mul(values, constant(stored.scale))


def on_fixed_grid(x: Any, grid: FixedGrid) -> Any:
    """Return values rounded to a grid."""
    if grid.bits < BYTE_BITS or grid.lowest > 0:  # a byte has more codes, which values beyond the ends must not use
        x = op.Clip(x, *(constant(torch.tensor(end)) for end in grid.ends))
    scale = constant(torch.tensor(grid.scale))
    zero_point = _integers(np.array(grid.zero_point), onnx_ir.DataType.UINT8)
    return op.DequantizeLinear(op.QuantizeLinear(x, scale, zero_point), scale, zero_point)


def signed_codes(x: Any, scale: Any, zero_point: int, middle: int) -> Any:
    """Return ``round(x / scale) + zero_point - middle``, with one scale for each row, through unsigned bytes."""
    scales = op.Reshape(scale, op.Constant(value_ints=[-1]))  # type: ignore[arg-type]
    zero_points = op.Expand(_integers(np.array(zero_point), onnx_ir.DataType.UINT8), op.Shape(scales))
    codes = op.QuantizeLinear(x, scales, zero_points, axis=0)
    return op.DequantizeLinear(codes, constant(torch.tensor(1.0)), _integers(np.array(middle), onnx_ir.DataType.UINT8))


def constant(x: Tensor) -> Any:
    """Return a constant in float32."""
    return op.Constant(value=onnx_ir.tensor(x.float().contiguous().numpy()))  # type: ignore[arg-type]


def _integers(codes: Any, dtype: onnx_ir.DataType) -> Any:
    return op.Constant(value=onnx_ir.tensor(codes.astype(dtype.numpy()), dtype=dtype))  # type: ignore[arg-type]
