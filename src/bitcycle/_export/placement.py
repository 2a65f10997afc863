"""Which grids an ONNX file has: decided for every operand while the model is traced.

The trace marks weights and fixed grids by two operations of its own. :mod:`bitcycle._export.translation` turns them
into ``QuantizeLinear`` and ``DequantizeLinear``. Grids that follow their tensor are traced as the operations that
compute them.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from bitcycle._export.recording import Recording
from bitcycle._export.stored_grids import FixedGrid, StoredWeight, store_symmetric, store_weight
from bitcycle.arithmetic import ConvolutionProduct, LinearProduct, OperandSpec, Product, Site
from bitcycle.kernels.rounding import BYTE_BITS, Dims, round_to_grid


class Kernels(Enum):
    """With which kernels a runtime is meant to multiply."""

    EXACT = "exact"
    """Floating point, on exactly the values that bitcycle's evaluation multiplies."""
    INTEGER = "integer"
    """8-bit integers, on the nearest grids that integer kernels take."""


class Dynamic(Enum):
    """A grid that the runtime computes from the tensor: ONNX's ``DynamicQuantizeLinear``."""

    PER_TENSOR = "per tensor"


class WeightToStore(NamedTuple):
    """A weight that the trace has marked. It is put on its grid after the trace, in which nothing is computed."""

    site: Site
    weight: Tensor
    bits: int
    dims: Dims
    symmetric: bool
    transposed: bool

    def stored(self) -> StoredWeight | None:
        """Return the weight on its grid; None if it has values without a grid."""
        stored = (store_symmetric if self.symmetric else store_weight)(self.weight, self.bits, self.dims)
        return stored.transposed() if stored is not None and self.transposed else stored


class Deviation(NamedTuple):
    """An operand of a site that the file computes otherwise than bitcycle, and why."""

    site: str
    reason: str


@torch.library.custom_op("bitcycle::stored_weight", mutates_args=())
def stored_weight(x: Tensor, index: int, transposed: bool) -> Tensor:
    """Mark a weight in a trace: the entry ``index`` of its placement."""
    return x.t().clone() if transposed else x.clone()


@torch.library.custom_op("bitcycle::fixed_grid", mutates_args=())
def fixed_grid(x: Tensor, index: int) -> Tensor:
    """Mark an activation in a trace: the entry ``index`` of its placement."""
    return x.clone()


stored_weight.register_fake(lambda x, index, transposed: torch.empty_like(x.t() if transposed else x))
fixed_grid.register_fake(lambda x, index: torch.empty_like(x))


class OnnxPlacement:
    """Decides how the operands of all sites are stored, and remembers it for the translation.

    Args:
        recording: The weights and ranges of the model.
        kernels: What the file is for.
        calibrated: Whether the ranges are those of calibration batches, so that exact files use them too.
    """

    def __init__(self, recording: Recording, kernels: Kernels, calibrated: bool) -> None:
        self.recording, self.kernels, self.calibrated = recording, kernels, calibrated
        self.entries: list[WeightToStore | FixedGrid | Dynamic] = []
        self.deviations: dict[Deviation, None] = {}  # in order, once each

    def multiply(
        self, site: Site, product: Product, a: Tensor, b: Tensor, bias: Tensor | None, specs: tuple[OperandSpec, ...]
    ) -> Tensor:
        a_spec, b_spec = specs
        if self.kernels is Kernels.EXACT:
            why_exact = None
        else:
            why_exact = self._why_no_integers(site, product, a_spec, b_spec)
            if why_exact is not None:
                self.deviate(site, f"float kernel: {why_exact}")
        integer = self.kernels is Kernels.INTEGER and why_exact is None
        a = a if a_spec.already_rounded else self._activation(site, "a", a, a_spec.dims, integer)
        if isinstance(product, LinearProduct) and not b_spec.already_rounded:
            out = a @ self._operand(site, "b", b, b_spec.dims, integer, transposed=True)
            if bias is None:
                return out
            # onnxruntime would fuse a sum with the product to a Gemm in floating point.
            return out - (-bias) if integer else out + bias
        b = b if b_spec.already_rounded else self._operand(site, "b", b, b_spec.dims, integer)
        return product.output(a, b, bias)

    def round(self, site: Site, operand: str, x: Tensor, dims: Dims) -> Tensor:
        return self._operand(site, operand, x, dims, integer=False)

    def _why_no_integers(self, site: Site, product: Product, a: OperandSpec, b: OperandSpec) -> str | None:
        bits = _width(site)
        if not 0 < bits <= BYTE_BITS:
            return "more than 8 bits" if bits else "full precision"
        if b.already_rounded or a.already_rounded or not isinstance(product, LinearProduct | ConvolutionProduct):
            return "only linear layers and convolutions have integer kernels"
        if self.recording.weight(site, "b") is None:
            return "both operands are activations"
        if isinstance(product, ConvolutionProduct):
            if product.transposed:
                return "onnxruntime has no integer kernel for transposed convolutions"
            if a.dims is not None:
                return "an integer convolution has one grid for its input"
        return None

    def _operand(
        self, site: Site, operand: str, x: Tensor, dims: Dims, integer: bool, transposed: bool = False
    ) -> Tensor:
        bits, weight = _width(site), self.recording.weight(site, operand)
        if bits == 0 or weight is None:
            placed = self._activation(site, operand, x, dims, integer)
            return placed.t() if transposed else placed
        entry = WeightToStore(site, weight, bits, dims, integer, transposed)
        return stored_weight(x, self._add(entry), transposed)

    def _activation(self, site: Site, operand: str, x: Tensor, dims: Dims, integer: bool) -> Tensor:
        bits, found = _width(site), self.recording.ranges.get((site, operand))
        if bits == 0:
            return x
        if integer and dims is not None:
            self.deviate(site, "one 8-bit grid for the input instead of one per row")
            return fixed_grid(x, self._add(Dynamic.PER_TENSOR))
        if found is not None and dims is None and (integer or self.calibrated) and _is_finite(*found):
            return fixed_grid(x, self._add(FixedGrid.of(found, bits)))
        return round_to_grid(x, bits, tuple(range(x.dim())) if dims is None else dims)  # ONNX needs them listed

    def _add(self, entry: WeightToStore | FixedGrid | Dynamic) -> int:
        self.entries.append(entry)
        return len(self.entries) - 1

    def deviate(self, site: Site, reason: str) -> None:
        """Remember that the file computes a site otherwise than bitcycle."""
        self.deviations[Deviation(site.name, reason)] = None


def _width(site: Site) -> int:
    """Return the evaluation bits of a site as the constant that an exported program has; 0 is full precision."""
    width = site.width(training=False)
    assert isinstance(width, int)
    return width


def _is_finite(low: float, high: float) -> bool:
    return high - low < float("inf")  # false for NaN too
