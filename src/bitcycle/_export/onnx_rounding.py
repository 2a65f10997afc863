"""How an ONNX file rounds: decided for every operand while the model is traced.

Grids that follow their tensor are traced as the torch operations that compute them. Integers with a scale have no torch
operation: the trace has a mark in their place, and the exporter asks for the ONNX operations when it comes to it.

Linear layers in 8-bit integers keep the values of both operands. Around the middle of a grid, a value is
``c * scale + middle`` with a signed code ``c``. The product of a row ``a`` of activations and an output channel ``w``
of the weight is then

    sum(a w) = scale_a * sum(c_a c_w scale_w) + middle_a * sum(w) + scale_a * sum(c_a) * middle_w

The first sum is a product of integers. Seen by a runtime, it is a ``MatMul`` of two ``DequantizeLinear`` with constant
scales, which onnxruntime computes as ``MatMulIntegerToFloat``, whatever the scales of the rows. The rest is a product
with two rows of constants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bitcycle._export.agreement import Deviation
from bitcycle._export.onnx_operations import constant, float_weight, integer_weight, on_fixed_grid, signed_codes
from bitcycle._export.recording import Recording, is_symmetric
from bitcycle._export.stored_grids import FixedGrid, StoredWeight, store_nearest_symmetric, store_weight
from bitcycle.arithmetic import ConvolutionProduct, LinearProduct, OperandSpec, Product, Site
from bitcycle.kernels.rounding import BYTE_BITS, NO_STEP, Dims, round_to_grid


@torch.library.custom_op("bitcycle::mark", mutates_args=())
def mark(inputs: list[Tensor], like: Tensor, index: int) -> Tensor:
    """Stand in a trace for the ONNX operations ``marks[index]``, whose result has the shape of ``like``."""
    return like.clone()


mark.register_fake(lambda inputs, like, index: torch.empty_like(like))


class MarkedWeight(NamedTuple):
    """A weight in a trace. It is put on its grid after the trace, in which nothing is computed."""

    site: Site
    weight: Tensor
    bits: int
    dims: Dims
    transposed: bool = False

    @property
    def rounding(self) -> tuple[Tensor, int, Dims, bool]:
        """The tensor to put on its grid, its width, the dimensions that share a grid, and whether it is symmetric."""
        tensor, dims = self.weight.detach().float(), self.dims
        if self.transposed:
            tensor, dims = tensor.t(), None if dims is None else tuple(1 - dim % 2 for dim in dims)
        return tensor, self.bits, dims, is_symmetric(self.site)

    def stored(self, store: Callable[..., StoredWeight | None] = store_weight) -> StoredWeight | None:
        """Return the weight on its grid; None if it has values without a grid."""
        return store(*self.rounding)

    def centred(self) -> StoredWeight | None:
        """Return the weight as signed 8-bit codes around the middle of its grid, with unchanged values."""
        stored = self.stored()
        return None if stored is None else replace(stored.around_the_middle(self.bits), bits=BYTE_BITS)

    def rounded(self) -> Tensor:
        """Return the values that bitcycle multiplies: parts without a grid are as they were."""
        tensor, bits, dims, symmetric = self.rounding
        return round_to_grid(tensor, bits, dims, symmetric=symmetric)

    def sums(self) -> Tensor:
        """Return the sums of the output channels and the values of their middle codes, as two rows."""
        stored = self.centred()
        values = self.rounded() if stored is None else stored.values()
        sums = values.double().sum(0).float()
        middle = None if stored is None else stored.zero
        return torch.stack([sums, torch.zeros_like(sums) if middle is None else middle.reshape(-1).expand_as(sums)])


class OnnxRounding:
    """Decides how the operands of all sites are stored, and keeps the ONNX operations of marks.

    Args:
        recording: The weights and ranges of the model.
        integer: Whether a runtime is meant to multiply 8-bit integers, on the nearest grids that integer kernels
            support; else it multiplies exactly the values of bitcycle's evaluation, in floating point.
    """

    def __init__(self, recording: Recording, integer: bool) -> None:
        self.recording, self.integer = recording, integer
        self.marks: list[Callable[..., Any]] = []
        self.deviations: dict[Deviation, None] = {}  # in order, once each

    def translations(self) -> dict[Any, Callable[..., Any]]:
        """Return how ``torch.onnx.export`` translates the marks."""

        def translate(inputs: Any, like: Any, index: int) -> Any:
            return self.marks[index](*inputs)

        return {torch.ops.bitcycle.mark.default: translate}

    def multiply(
        self, site: Site, product: Product, a: Tensor, b: Tensor, bias: Tensor | None, specs: tuple[OperandSpec, ...]
    ) -> Tensor:
        a_spec, b_spec = specs
        integer = self.integer
        if integer:
            if self._multiplies_activations(site, a_spec, b_spec):
                self._deviate(
                    site, "not rounded: both operands are activations, whose grids cost more time than they save"
                )
                return product.output(a, b, bias)
            why_float = self._why_float(site, product, a_spec, b_spec)
            if why_float is not None:
                integer = False
                self._deviate(site, f"float kernel: {why_float}")
            elif isinstance(product, LinearProduct):
                return self._integer_linear(site, a, b, bias, specs)
        a = a if a_spec.already_rounded else self._activation(site, "a", a, a_spec, integer)
        if b_spec.already_rounded:
            return product.output(a, b, bias)
        if isinstance(product, LinearProduct):
            out = a @ self._operand(site, "b", b, b_spec, transposed=True)
            return out if bias is None else out + bias
        return product.output(a, self._operand(site, "b", b, b_spec, nearest_symmetric=integer), bias)

    def round(self, site: Site, operand: str, x: Tensor, spec: OperandSpec) -> Tensor:
        return self._operand(site, operand, x, spec)

    def _integer_linear(
        self, site: Site, a: Tensor, b: Tensor, bias: Tensor | None, specs: tuple[OperandSpec, ...]
    ) -> Tensor:
        """Return the product by the formula of the module."""
        a_spec, b_spec = specs
        grids = _dynamic_grids(a, _width(site, a_spec), a_spec.dims, is_symmetric(site))
        write_codes = partial(signed_codes, zero_point=grids.zero_point, middle=grids.middle_code)
        codes = self._mark(write_codes, [grids.shifted, grids.scale], grids.shifted)
        weight = self.recording.weight(site, "b")
        assert weight is not None
        marked = MarkedWeight(site, weight, _width(site, b_spec), b_spec.dims, transposed=True)
        values = self._mark(lambda: self._write(marked, marked.centred(), integer_weight), [], b.t())
        sums = self._mark(lambda: constant(marked.sums()), [], b.new_empty(2, b.shape[0]))
        columns = [grids.middle, grids.scale * codes.sum(1, keepdim=True)]
        if bias is not None:
            columns, sums = [*columns, torch.ones_like(grids.scale)], torch.cat([sums, bias.unsqueeze(0)])
        out = torch.addmm(codes.matmul(values) * grids.scale, torch.cat(columns, 1), sums)
        return out.reshape(*a.shape[:-1], b.shape[0])

    def _multiplies_activations(self, site: Site, a: OperandSpec, b: OperandSpec) -> bool:
        rounded_before = a.already_rounded or b.already_rounded
        return not rounded_before and all(self.recording.weight(site, operand) is None for operand in "ab")

    def _why_float(self, site: Site, product: Product, a: OperandSpec, b: OperandSpec) -> str | None:
        """Return why a product is not computed in integers; None if it is."""
        widths = _width(site, a), _width(site, b)
        if 0 in widths:
            return "one operand is in full precision"
        if max(widths) > BYTE_BITS:
            return "more than 8 bits"
        if a.already_rounded or b.already_rounded or not isinstance(product, LinearProduct | ConvolutionProduct):
            return "only linear layers and convolutions have integer kernels"
        if self.recording.weight(site, "b") is None:
            return "only products with a weight have integer kernels"
        if isinstance(product, LinearProduct):
            return None if a.dims is None or -1 in a.dims else "an integer product has one grid for each row"
        if product.transposed:
            return "onnxruntime has no integer kernel for transposed convolutions"
        return None if a.dims is None or 1 in a.dims else "an integer convolution has one grid for all channels"

    def _operand(
        self,
        site: Site,
        operand: str,
        x: Tensor,
        spec: OperandSpec,
        transposed: bool = False,
        nearest_symmetric: bool = False,
    ) -> Tensor:
        bits, weight = _width(site, spec), self.recording.weight(site, operand)
        if bits == 0 or weight is None:
            rounded = self._activation(site, operand, x, spec, integer=False)
            return rounded.t() if transposed else rounded
        marked = MarkedWeight(site, weight, bits, spec.dims, transposed)
        store = store_nearest_symmetric if nearest_symmetric else store_weight
        write = integer_weight if nearest_symmetric else float_weight
        return self._mark(lambda: self._write(marked, marked.stored(store), write), [], x.t() if transposed else x)

    def _write(self, marked: MarkedWeight, stored: StoredWeight | None, write: Callable[[StoredWeight], Any]) -> Any:
        if stored is not None:
            return write(stored)
        self._deviate(marked.site, "the weight has values without a grid, so it is stored in floating point")
        return constant(marked.rounded())

    def _activation(self, site: Site, operand: str, x: Tensor, spec: OperandSpec, integer: bool) -> Tensor:
        bits, dims = _width(site, spec), spec.dims
        if bits == 0:
            return x
        found = self.recording.ranges.get((site, operand)) if integer else None
        if found is not None and found.is_finite:
            if dims is not None:
                self._deviate(site, "the input has one grid for all samples, for the integer kernel")
            return self._mark(partial(on_fixed_grid, grid=FixedGrid.of(found, bits, is_symmetric(site))), [x], x)
        listed = tuple(range(x.dim())) if dims is None else dims  # ONNX needs them listed
        return round_to_grid(x, bits, listed, symmetric=is_symmetric(site), with_zero=spec.with_zero)

    def _mark(self, write: Callable[..., Any], inputs: list[Tensor], like: Tensor) -> Tensor:
        """Return a tensor of the trace that ``write`` makes of inputs in the file."""
        self.marks.append(write)
        return mark(inputs, like, len(self.marks) - 1)

    def _deviate(self, site: Site, reason: str) -> None:
        self.deviations[Deviation(site.name, reason)] = None


class _RowGrids(NamedTuple):
    """The grids of the rows of a matrix: ``value = signed code * scale + middle``."""

    shifted: Tensor
    """The matrix, less the value with code 0 where it is not the zero point."""
    scale: Tensor
    """One for each row, as a column."""
    middle: Tensor
    """One for each row, as a column."""
    zero_point: int
    """A code is ``round(shifted / scale) + zero_point``, from 0 to ``2^bits - 1``."""
    middle_code: int
    """What a code is less as a signed code."""


def _dynamic_grids(x: Tensor, bits: int, dims: Dims, symmetric: bool) -> _RowGrids:
    """Return the grids that follow the values of activations, as bitcycle computes them.

    Args:
        x: The activations.
        bits: The width, at most 8.
        dims: The dimensions that share one grid, with the last one among them; ``None`` for all.
        symmetric: Whether zero has the middle code.
    """
    shared = tuple(range(x.dim())) if dims is None else dims
    low, high = x.amin(shared, keepdim=True), x.amax(shared, keepdim=True)
    middle = 2 ** (bits - 1)
    levels = middle - 1 if symmetric else 2**bits - 1
    extent = torch.maximum(-low, high) if symmetric else high - low
    scale = extent / levels
    # Constants have code 0. So have ranges too small to divide, which bitcycle leaves as they are.
    scale = torch.where(scale < torch.finfo(torch.float32).tiny, NO_STEP, scale)

    # onnxruntime ignores NaN in a minimum, and integers have no NaN: such a row must not become finite.
    nothing = 0.0 * x.sum(-1, keepdim=True)

    def column(values: Tensor) -> Tensor:
        return values.expand(*x.shape[:-1], 1).reshape(-1, 1)

    if symmetric:
        return _RowGrids(_as_rows(x), column(scale), column(nothing), middle, middle)
    return _RowGrids(_as_rows(x - low), column(scale), column(low + middle * scale + nothing), 0, middle)


def _as_rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])


def _width(site: Site, spec: OperandSpec) -> int:
    """Return the evaluation bits of an operand as the constant that an exported program has; 0 is full precision."""
    assert spec.role is not None
    width = site.precision(training=False).width(spec.role)
    assert isinstance(width, int)
    return width
