"""The native kernels: which tensors they take, and how they are called.

The extension module ``_native`` is compiled from one C file when bitcycle is installed, if there is a compiler. Without
it, or with ``BITCYCLE_KERNELS=reference`` in the environment, the torch operations run that the kernels are equal to,
bit for bit. The kernels take dense tensors of single precision on the CPU.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch  # before the extension, which shares the threads of torch's OpenMP library
from torch import Tensor

_extension: Any = import_module("bitcycle.kernels._native") if find_spec("bitcycle.kernels._native") else None

VARIABLE = "BITCYCLE_KERNELS"
CHOICES = ("native", "reference")
PARALLEL = 32768
"""Tensors with fewer elements are computed by one thread."""
BYTES = (torch.int8, torch.uint8)
INT32 = (torch.int32,)
FLOAT32 = (torch.float32,)
FLOATS = (torch.float32, torch.bfloat16)
"""The types whose codes are computed; values are only computed in single precision."""
STAGE = 1024
"""The most channels of images that are in bfloat16 or have factors."""

_FLAT, _LAST, _TO_LAST = range(3)  # the layouts of `encode` in the C file
_ONE, _PER_IMAGE, _PER_CHANNEL = range(3)  # the grids of images there
_OF_IMAGES = {(1, 2, 3): _PER_IMAGE, (2, 3): _PER_CHANNEL}  # by the dimensions that share a grid
_RANGE, _SYMMETRIC, _WITH_ZERO = range(3)  # what a grid spans there
_CHANNELS_LAST = (0, 2, 3, 1)
_PLAIN = (Tensor, torch.nn.Parameter)
_library: Any = None
_multiplies = False


def choose_kernels(name: str | None = None) -> str:
    """Use the native kernels or the reference, and return which of them is used.

    Args:
        name: ``"native"``, ``"reference"``, or None for what the environment says, by default the native kernels if
            they are installed.

    Raises:
        ValueError: There is no such choice, or the native kernels are not installed.
    """
    global _library, _multiplies
    wanted = os.environ.get(VARIABLE) or None if name is None else name
    if wanted is not None and wanted not in CHOICES:
        raise ValueError(f"{VARIABLE} must be {' or '.join(CHOICES)}, got {wanted!r}")
    if wanted == "native" and _extension is None:
        raise ValueError("the native kernels are not installed: install bitcycle again where there is a C compiler")
    _library = None if wanted == "reference" else _extension
    _multiplies = _library is not None and _library.HAS_VNNI == 1
    return current_kernels()


def current_kernels() -> str:
    """Return which kernels are used: ``"native"`` or ``"reference"``."""
    return "reference" if _library is None else "native"


def multiplies() -> bool:
    """Return whether products of codes are computed by the native kernels: on processors with VNNI."""
    return _multiplies


choose_kernels()


class Rounded(NamedTuple):
    """What :func:`encode` returns."""

    values: Any
    """None if they were not asked for."""
    codes: Any
    """None if they were not asked for; meaningless if some values have no grid."""
    scale: Tensor
    zero: Tensor
    without_grid: int
    """How many grids do not exist."""
    pixel_sums: Any
    """The sums of the codes of each pixel, as unsigned bytes, of codes that were asked for with the channels last."""


def supports(x: Tensor, dtypes: tuple[torch.dtype, ...] = FLOAT32) -> bool:
    """Return whether a tensor is one for the native kernels: its memory on the CPU holds its elements as they are."""
    return (
        _library is not None
        and not torch.compiler.is_compiling()  # a compiler refuses some of what follows in a backward pass
        and type(x) in _PLAIN  # a fake tensor has no memory, nor has one that another transformation wraps
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        and x.dtype in dtypes
        and x.is_cpu
        and x.layout is torch.strided
        and not x.is_neg()  # torch changes the sign of the elements of such a view when it reads them
        and not x._is_zerotensor()  # has no memory at all
    )


def encode(
    x: Tensor,
    bits: int,
    dims: tuple[int, ...] | None,
    noise: tuple[int, int] | None,
    offset: int,
    values: bool,
    codes: bool,
    symmetric: bool = False,
    channels_last: bool = False,
    factors: Tensor | None = None,
    with_zero: bool = False,
) -> Rounded | None:
    """Round a tensor to its grid; None if its layout is not one for the kernels.

    The codes of images can be asked for with the channels last, with one grid, one per image or one per channel, if
    their values are not. Elements are first multiplied by their factors: one for each row of memory, a row of factors
    for all rows or for each matrix of a batch, or one for each image or channel of images.
    """
    of_factors = None if factors is None else factors.shape
    layout = _layout(x.shape, x.stride(), dims, noise is not None, channels_last, of_factors)
    is_bfloat16 = x.dtype is torch.bfloat16
    if layout is None or (channels_last and x.shape[1] > STAGE and (is_bfloat16 or factors is not None)):
        return None
    if layout.is_copied:
        x = x.contiguous()
    shape, strides = layout.grid_shape, layout.grid_strides
    scale = x.new_empty_strided(shape, strides, dtype=torch.float32)
    zero = x.new_empty_strided(shape, strides, dtype=torch.float32)
    if factors is not None:
        factors = (factors if layout.factors is None else factors.expand(layout.factors)).contiguous()
    rounded = torch.empty_like(x) if values else None
    stored = None
    if codes:
        memory = torch.channels_last if layout.kind == _TO_LAST else torch.preserve_format
        stored = torch.empty_like(x, dtype=torch.int8, memory_format=memory)
    sums = x.new_empty((len(x), *x.shape[2:]), dtype=torch.int32) if channels_last else None
    key1, key2 = (0, 0) if noise is None else noise
    origin = 1 << bits - 1 if symmetric else 0
    lowest, highest = (1 - origin, origin - 1) if symmetric else (0, (1 << bits) - 1)
    without = _library.encode(
        x.data_ptr(), *layout.sizes, layout.kind, lowest, highest, noise is not None, key1, key2,
        scale.data_ptr(), zero.data_ptr(),
        0 if rounded is None else rounded.data_ptr(), 0 if stored is None else stored.data_ptr(),
        offset - origin, 1 if x.numel() < PARALLEL else torch.get_num_threads(),
        0 if sums is None else sums.data_ptr(), layout.grids,
        is_bfloat16, 0 if factors is None else factors.data_ptr(), layout.period,
        _SYMMETRIC if symmetric else _WITH_ZERO if with_zero else _RANGE,
    )  # fmt: skip
    return Rounded(rounded, stored, scale, zero, without, sums)


def decode(codes: Tensor, scale: Tensor, zero: Tensor, offset: int, origin: int = 0) -> Tensor | None:
    """Recover the values of codes; None if their layout is not one for the kernels."""
    if not supports(codes, BYTES) or scale.dtype is not torch.float32 or scale.is_neg() or zero.is_neg():
        return None
    sizes = _sizes(codes.shape, codes.stride(), scale.shape, scale.stride(), zero.stride())
    if sizes is None:
        return None
    values = torch.empty_like(codes, dtype=torch.float32)
    _library.decode(
        codes.data_ptr(), *sizes, scale.data_ptr(), zero.data_ptr(), offset, origin,
        values.data_ptr(), 1 if codes.numel() < PARALLEL else torch.get_num_threads(),
    )  # fmt: skip
    return values


@lru_cache(maxsize=4096)
def _sizes(
    codes: torch.Size,
    strides: tuple[int, ...],
    scale: torch.Size,
    scale_strides: tuple[int, ...],
    zero_strides: tuple[int, ...],
) -> tuple[int, int, int] | None:
    """Return the numbers of elements (outer, shared, inner) to decode; None if the layout is not one for the kernel."""
    if codes.numel() == 0 or not _is_dense(codes, strides):
        return None
    if not scale:
        return 1, codes.numel(), 1
    order = _memory_order(codes, strides)
    if not all(_is_filled(scale, each, order) for each in (scale_strides, zero_strides)):
        return None
    return _split(codes, order, tuple(d for d, size in enumerate(codes) if scale[d] != size))


def round_float(
    x: Tensor,
    dims: tuple[int, ...] | None,
    block: int | None,
    scaling: int,
    format: tuple[Any, Any, Any],
    noise: tuple[int, int] | None,
) -> Tensor | None:
    """Round a tensor to a floating-point format; None if its layout is not one for the kernels.

    Args:
        x: The tensor.
        dims: The dimensions that blocks run along. None means all of them.
        block: The number of values in a block. None means that all values along these dimensions are one block.
        scaling: How the scale of a block follows from its values, one of the numbers in the C file.
        format: Bits of the mantissa, exponent of the smallest normal number, and the largest number.
        noise: The key of the noise of stochastic rounding; by default values are rounded to nearest.
    """
    if x.dim() == 0 or dims == ():
        return None
    several = block is not None and (dims is None or len(dims) > 1)
    if not x.is_contiguous() and (noise is not None or several or not _is_dense(x.shape, x.stride())):
        x = x.contiguous()  # noise, and blocks over several dimensions, follow the order of the dimensions
    if dims is None:
        outer, along, inner = 1, x.numel(), 1
    else:
        split = _split(x.shape, _memory_order(x.shape, x.stride()), dims)
        if split is None:
            return None
        outer, along, inner = split
    out = torch.empty_like(x)
    mantissa, smallest, largest = format
    key1, key2 = (0, 0) if noise is None else noise
    _library.round_float(
        x.data_ptr(), out.data_ptr(), outer, along, inner, along if block is None else block, scaling,
        mantissa, smallest, int(2 * largest), noise is not None, key1, key2, threads(x.numel()),
    )  # fmt: skip
    return out


def draw(out: Tensor, key: tuple[int, int]) -> bool:
    """Fill a tensor with 16-bit noise. Return False if it is not one for the kernels."""
    if not supports(out, (out.dtype,)):
        return False
    if out.is_contiguous():
        _library.draw(out.data_ptr(), 1, out.numel(), 0, *key)
    elif out.is_contiguous(memory_format=torch.channels_last):
        _library.draw(out.data_ptr(), out.shape[0], out.shape[1], out.shape[2] * out.shape[3], *key)
    else:
        return False
    return True


def relu(x: Tensor, bits: Tensor, out: Tensor, *, keep: bool = False) -> None:
    """Write ``relu(x)`` and a bit for each element whose gradient passes; or keep the elements that have their bit."""
    _library.relu(x.data_ptr(), x.numel(), bits.data_ptr(), out.data_ptr(), keep, threads(x.numel()))


def kernel(name: str, *tensors: tuple[Tensor | None, tuple[torch.dtype, ...]]) -> Callable[..., Any] | None:
    """Return a kernel by its name if all tensors are contiguous ones on the CPU, of the types with them, else None."""
    for x, dtypes in tensors:
        if x is not None and not (supports(x, dtypes) and x.is_contiguous()):
            return None
    function: Callable[..., Any] = getattr(_library, name)
    return function


def multiply(
    p: Tensor,
    q: Tensor,
    p_grid: Any,
    q_grid: Any,
    bias: Tensor | None,
    row_bias: Tensor | None,
    dtype: torch.dtype,
    is_summed: bool,
) -> Tensor | None:
    """Multiply as :func:`bitcycle.kernels.integer_sums.multiply`; None if the matrices are not for the kernel.

    Codes and grids are those that :func:`encode` returned.
    """
    if not _multiplies or dtype not in FLOATS or p.dim() > 4 or not p.is_cpu:
        return None
    for x in (bias, row_bias):
        if x is not None and not (supports(x) and x.is_contiguous()):
            return None
    batch, columns, terms = (1, 1, *p.shape[:-2])[-2:], q.shape[-2], p.shape[-1]
    out = p.new_empty(*p.shape[-2 if is_summed else 0 : -1], columns, dtype=dtype)
    p, q = p if 1 in p.stride()[-2:] else p.contiguous(), q if 1 in q.stride()[-2:] else q.contiguous()
    numbers: list[int] = []
    for x, grid in ((p, p_grid), (q, q_grid)):
        *steps, line, term = x.stride()
        scale = grid.scale
        numbers += (x.data_ptr(), x.shape[-2], line, term, *(0, 0, *steps)[-2:])
        numbers += (scale.data_ptr(), grid.zero.data_ptr(), 0 if scale.numel() == 1 else 2, grid.offset)
    _library.multiply(
        *batch, terms, 1 if p.numel() * columns < 32 * PARALLEL else torch.get_num_threads(),
        out.data_ptr(), dtype is torch.bfloat16, is_summed,
        0 if bias is None else bias.data_ptr(), columns, 0 if row_bias is None else row_bias.data_ptr(), *numbers,
    )  # fmt: skip
    return out


def widen(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ``x.to(dtype)``. Torch takes many times as long from bfloat16 to single precision."""
    if dtype is not torch.float32 or not supports(x, (torch.bfloat16,)) or not _is_dense(x.shape, x.stride()):
        return x.to(dtype)
    out = torch.empty_like(x, dtype=dtype)
    _library.widen(x.data_ptr(), x.numel(), out.data_ptr(), threads(x.numel()))
    return out


def threads(count: int) -> int:
    """Return how many threads compute this number of elements."""
    return 1 if count < PARALLEL else torch.get_num_threads()


class _Layout(NamedTuple):
    """How ``encode`` in the C file goes through a tensor."""

    is_copied: bool
    """Whether the tensor is first copied to the order of its dimensions."""
    kind: int
    sizes: tuple[int, int, int]
    """The numbers of elements (outer, shared, inner) in memory; of images (images, channels, pixels)."""
    grids: int
    grid_shape: tuple[int, ...]
    grid_strides: tuple[int, ...]
    factors: tuple[int, ...] | None
    """The shape that factors are first expanded to."""
    period: int
    """Of rows that share factors, see there."""


@lru_cache(maxsize=4096)
def _layout(
    shape: torch.Size,
    strides: tuple[int, ...],
    dims: tuple[int, ...] | None,
    noisy: bool,
    channels_last: bool,
    factors: torch.Size | None,
) -> _Layout | None:
    """Return how to encode a tensor; None if it is not one for the kernel. See :func:`encode`."""
    order = _memory_order(shape, strides)
    in_order = order == sorted(order) and _is_dense(shape, strides)
    is_last = len(shape) == 4 and _is_filled(shape, strides, _CHANNELS_LAST)
    if channels_last:
        is_copied = not (in_order or is_last)
    else:  # noise and factors follow the order of the dimensions
        is_last = is_last and dims is None and noisy and factors is None
        is_copied = not (in_order or is_last or (not (noisy or factors is not None) and _is_dense(shape, strides)))
    order = sorted(order) if is_copied else order
    kind, grids, sizes = _FLAT, _ONE, (1, shape.numel(), 1)
    grid_shape: tuple[int, ...] = ()
    if channels_last or (is_last and not in_order):
        kind = _LAST if is_last and not in_order else _TO_LAST
        sizes = shape[0], shape[1], shape[2] * shape[3]
        if dims is not None:
            if dims not in _OF_IMAGES:
                return None
            grids = _OF_IMAGES[dims]
            grid_shape = (shape[0], 1 if grids == _PER_IMAGE else shape[1], 1, 1)
    elif dims is not None:
        if not dims or not shape:
            return None
        chosen = {d % len(shape) for d in dims}
        split = _split(shape, order, dims)
        if split is None:
            return None
        sizes = split
        grid_shape = tuple(1 if d in chosen else size for d, size in enumerate(shape))
    expanded, period = None, 0
    if factors is not None and dims is None:
        return None
    if factors is not None and (kind != _FLAT or channels_last):
        period = int(factors[1] > 1)
        if factors.numel() != shape[period]:
            return None
    elif factors is not None:
        if shape[-1] != (sizes[2] if sizes[2] > 1 else sizes[1]):
            return None
        if factors[-1] == 1:
            expanded = (*shape[:-1], 1)
        else:
            period = shape.numel() // factors.numel()
    grid_strides = _strides_in_order(grid_shape, order)
    return _Layout(is_copied, kind, sizes, grids, grid_shape, grid_strides, expanded, period)


def _is_filled(shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    """Return whether the elements fill their memory with the dimensions in an order, from the outermost."""
    step = 1
    for d in reversed(order):
        if shape[d] != 1 and strides[d] != step:
            return 0 in shape
        step *= shape[d]
    return True


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether the elements fill their memory, in any order of the dimensions."""
    return _is_filled(shape, strides, _memory_order(shape, strides))


def _memory_order(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the dimensions from the outermost to the innermost in memory: as they are if they can be."""
    in_order = list(range(len(shape)))
    if _is_filled(shape, strides, in_order):
        return in_order
    return sorted(in_order, key=lambda d: (-strides[d], shape[d] == 1))


def _split(shape: Sequence[int], order: Sequence[int], dims: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return the numbers of elements (outer, shared, inner) in memory; None if shared dimensions are not adjacent."""
    if not dims:
        return math.prod(shape), 1, 1
    chosen = {d % len(shape) for d in dims}
    outer = shared = inner = 1
    state = 0
    for d in order:
        size = shape[d]
        if size == 1:
            continue
        if d in chosen:
            if state == 2:
                return None
            state = 1
            shared *= size
        elif state == 0:
            outer *= size
        else:
            state = 2
            inner *= size
    return outer, shared, inner


def _strides_in_order(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a dense tensor whose dimensions are in an order in memory."""
    strides = [1] * len(shape)
    step = 1
    for d in reversed(order) if shape else ():
        strides[d] = step
        step *= shape[d]
    return tuple(strides)
