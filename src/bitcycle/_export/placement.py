"""Which grids an ONNX file has: decided for every operand while the model is traced.

The trace marks weights and fixed grids by two operations of its own. :mod:`bitcycle._export.translation` turns them
into ``QuantizeLinear`` and ``DequantizeLinear``. Grids that follow their tensor are traced as the operations that
compute them.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from bitcycle._export import integer_linear
from bitcycle._export.integer_linear import CodesToStore, signed_codes, weight_sums
from bitcycle._export.recording import Recording, is_symmetric
from bitcycle._export.stored_grids import FixedGrid, StoredWeight, store_nearest_symmetric, store_weight
from bitcycle.arithmetic import ConvolutionProduct, LinearProduct, OperandSpec, Product, Site
from bitcycle.kernels.rounding import BYTE_BITS, Dims, round_to_grid


class Kernels(Enum):
    """With which kernels a runtime is meant to multiply."""

    EXACT = "exact"
    """Floating point, on exactly the values that bitcycle's evaluation multiplies."""
    INTEGER = "integer"
    """8-bit integers, on the nearest grids that integer kernels take."""


class WeightForm(Enum):
    """How a weight is stored."""

    EXACT = "exact"
    """With unchanged values, which the file computes in floating point."""
    CENTRED = "centred"
    """With unchanged values, as signed codes for integer products; see :mod:`bitcycle._export.integer_linear`."""
    NEAREST_SYMMETRIC = "nearest symmetric"
    """On the nearest symmetric 8-bit grid, which integer convolutions take."""


class WeightToStore(NamedTuple):
    """A weight that the trace has marked. It is put on its grid after the trace, in which nothing is computed."""

    site: Site
    weight: Tensor
    bits: int
    dims: Dims
    form: WeightForm
    transposed: bool

    def stored(self) -> StoredWeight | None:
        """Return the weight on its grid; None if it has values without a grid."""
        store = store_nearest_symmetric if self.form is WeightForm.NEAREST_SYMMETRIC else store_weight
        stored = store(self.weight, self.bits, self.dims, is_symmetric(self.site))
        if stored is None:
            return None
        if self.form is WeightForm.CENTRED:
            stored = replace(stored.around_the_middle(self.bits), bits=BYTE_BITS)
        return stored.transposed() if self.transposed else stored

    def rounded(self) -> Tensor:
        """Return the values that bitcycle multiplies: parts without a grid are as they were."""
        values = round_to_grid(self.weight.detach().float(), self.bits, self.dims, symmetric=is_symmetric(self.site))
        return values.t() if self.transposed else values

    def sums(self) -> Tensor:
        """Return the sums of the output channels and the values of their middle codes, as two rows."""
        stored = self.stored()
        if stored is None:
            sums = self.rounded().sum(0)
            return torch.stack([sums, torch.zeros_like(sums)])
        sums = stored.values().double().sum(0).float()
        middle = torch.zeros_like(sums) if stored.zero is None else stored.zero.reshape(-1).expand_as(sums)
        return torch.stack([sums, middle])


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
        self.entries: list[WeightToStore | FixedGrid | CodesToStore] = []
        self.deviations: dict[Deviation, None] = {}  # in order, once each

    def multiply(
        self, site: Site, product: Product, a: Tensor, b: Tensor, bias: Tensor | None, specs: tuple[OperandSpec, ...]
    ) -> Tensor:
        a_spec, b_spec = specs
        integer = self.kernels is Kernels.INTEGER
        if integer:
            if self._multiplies_activations(site, a_spec, b_spec):
                self.deviate(
                    site, "not rounded: both operands are activations, whose grids cost more time than they save"
                )
                return product.output(a, b, bias)
            why_float = self._why_float(site, product, a_spec, b_spec)
            if why_float is not None:
                integer = False
                self.deviate(site, f"float kernel: {why_float}")
            elif isinstance(product, LinearProduct):
                return self._integer_linear(site, a, b, bias, specs)
        a = a if a_spec.already_rounded else self._activation(site, "a", a, a_spec, integer)
        form = WeightForm.NEAREST_SYMMETRIC if integer else WeightForm.EXACT
        if isinstance(product, LinearProduct) and not b_spec.already_rounded:
            out = a @ self._operand(site, "b", b, b_spec, form, transposed=True)
            return out if bias is None else out + bias
        b = b if b_spec.already_rounded else self._operand(site, "b", b, b_spec, form)
        return product.output(a, b, bias)

    def _integer_linear(
        self, site: Site, a: Tensor, b: Tensor, bias: Tensor | None, specs: tuple[OperandSpec, ...]
    ) -> Tensor:
        a_spec, b_spec = specs
        bits, fixed = _width(site, a_spec), self._fixed_grid(site, "a", a_spec)
        if fixed is None:
            grids = integer_linear.dynamic_grids(a, bits, a_spec.dims, is_symmetric(site))
        else:
            grids = integer_linear.fixed_grids(a, fixed)
        codes = signed_codes(grids.shifted, grids.scale, self._add(grids.codes))
        weight = self.recording.weight(site, "b")
        assert weight is not None
        index = self._add(WeightToStore(site, weight, _width(site, b_spec), b_spec.dims, WeightForm.CENTRED, True))
        out = integer_linear.multiply(codes, grids, stored_weight(b, index, True), weight_sums(b, index), bias)
        return out.reshape(*a.shape[:-1], b.shape[0])

    def round(self, site: Site, operand: str, x: Tensor, spec: OperandSpec) -> Tensor:
        return self._operand(site, operand, x, spec, WeightForm.EXACT)

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
        if a.dims is not None:
            return "an integer convolution has one grid for its input"
        return None

    def _operand(
        self, site: Site, operand: str, x: Tensor, spec: OperandSpec, form: WeightForm, transposed: bool = False
    ) -> Tensor:
        bits, weight = _width(site, spec), self.recording.weight(site, operand)
        if bits == 0 or weight is None:
            placed = self._activation(site, operand, x, spec, integer=False)
            return placed.t() if transposed else placed
        entry = WeightToStore(site, weight, bits, spec.dims, form, transposed)
        return stored_weight(x, self._add(entry), transposed)

    def _activation(self, site: Site, operand: str, x: Tensor, spec: OperandSpec, integer: bool) -> Tensor:
        bits, dims = _width(site, spec), spec.dims
        if bits == 0:
            return x
        fixed = self._fixed_grid(site, operand, spec, always=integer)
        if fixed is not None:
            return fixed_grid(x, self._add(fixed))
        listed = tuple(range(x.dim())) if dims is None else dims  # ONNX needs them listed
        return round_to_grid(x, bits, listed, symmetric=is_symmetric(site))

    def _fixed_grid(self, site: Site, operand: str, spec: OperandSpec, always: bool = False) -> FixedGrid | None:
        """Return the grid of a recorded range; None if the grid of the operand follows its values."""
        found = self.recording.ranges.get((site, operand))
        if found is None or spec.dims is not None or not (always or self.calibrated) or not found.is_finite:
            return None
        return FixedGrid.of(found, _width(site, spec), is_symmetric(site))

    def _add(self, entry: WeightToStore | FixedGrid | CodesToStore) -> int:
        self.entries.append(entry)
        return len(self.entries) - 1

    def deviate(self, site: Site, reason: str) -> None:
        """Remember that the file computes a site otherwise than bitcycle."""
        self.deviations[Deviation(site.name, reason)] = None


def _width(site: Site, spec: OperandSpec) -> int:
    """Return the evaluation bits of an operand as the constant that an exported program has; 0 is full precision."""
    assert spec.role is not None
    width = site.precision(training=False).width(spec.role)
    assert isinstance(width, int)
    return width
