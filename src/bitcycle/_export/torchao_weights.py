"""Weights in torchao's integer layout, on the same grid."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bitcycle._export.float_weights import export
from bitcycle._export.recording import is_symmetric
from bitcycle._export.stored_grids import StoredWeight, store_weight
from bitcycle._support.extras import need
from bitcycle.conversion.convert import restore
from bitcycle.conversion.sites import conversions
from bitcycle.kernels.rounding import BYTE_BITS


@dataclass(frozen=True)
class TorchaoModel:
    """A float model with weights in torchao's layout, and how far they agree with bitcycle's grids."""

    model: nn.Module
    """A copy of the model, without bitcycle."""
    bits: dict[str, int]
    """The width of each weight that is stored in integers, by the name of its layer."""
    largest_difference: float
    """The largest difference of a weight from its value on bitcycle's grid, relative to a step of the grid."""
    left: dict[str, str]
    """Layers whose weights stay in floating point, on their grids, with the reason."""

    def __str__(self) -> str:
        kinds = sorted(set(self.bits.values()))
        lines = [
            f"{len(self.bits)} weights in torchao's layout at {', '.join(map(str, kinds)) or 'no'} bits, "
            f"largest difference {self.largest_difference:.2g} of a step of the grid"
        ]
        return "\n".join([*lines, *(f"  {name} in floating point: {reason}" for name, reason in self.left.items())])


def export_torchao(model: nn.Module) -> TorchaoModel:
    """Return a copy of a converted model, without bitcycle, whose linear layers have weights in torchao's layout.

    The weights are torchao's ``IntxUnpackedToInt8Tensor`` with bitcycle's codes, scales and zero points, at 1 to 8
    bits. Activations are in full precision. All other weights are on their grids in floating point, as in
    ``bc.export``.

    Args:
        model: A converted model with evaluation bits.

    Returns:
        The copy, and how far its weights agree with bitcycle's grids.

    Raises:
        ValueError: The model is not converted, or its evaluation bits were never set.
        MissingExtraError: torchao is not installed.

    Example::

        exported = bc.export_torchao(model)
        print(exported)
        torch.save(exported.model.state_dict(), "model.pt")
    """
    need("torchao", "torchao", "the export to torchao")
    plain = copy.deepcopy(model)
    plain.load_state_dict(export(model))
    restore(plain).eval()
    bits, left, largest = {}, {}, 0.0
    for name, conversion in conversions(model):
        layer: Any = model.get_submodule(name)
        for local, weight, dims in conversion.mixin.weights_on_grid(layer):
            if weight.dim() < 2:
                continue  # a bias, which the copy has on its grid in floating point
            site = conversion.sites[local]
            width = site.evaluation.weights
            target = plain.get_submodule(name)
            reason = _why_left(target, width)
            if reason is not None or width is None:
                left[name] = reason or "full precision"
                continue
            stored = store_weight(weight, width, dims, is_symmetric(site))
            if stored is None:
                left[name] = "it has values without a grid"
                continue
            packed = _packed(stored, width)
            steps = (packed.dequantize() - stored.values()).abs() / stored.scale
            bits[name], largest = width, max(largest, float(steps.max()))
            target.weight = nn.Parameter(packed, requires_grad=False)
    return TorchaoModel(plain, bits, largest, left)


def _why_left(layer: nn.Module, bits: int | None) -> str | None:
    if not isinstance(layer, nn.Linear):
        return f"torchao has no layout for {type(layer).__name__}"
    if bits is not None and bits > BYTE_BITS:
        return "more than 8 bits"
    return None


def _packed(stored: StoredWeight, bits: int) -> Any:
    """Return torchao's tensor: a value is ``(code - zero_point) * scale``, with a zero point in floating point."""
    from torchao.quantization import IntxUnpackedToInt8Tensor

    stored = stored.around_the_middle(bits)
    rows, columns = stored.codes.shape
    scale = stored.scale.expand(rows, 1).contiguous()
    zero = torch.zeros_like(scale) if stored.zero is None else stored.zero.expand(rows, 1)
    return IntxUnpackedToInt8Tensor(
        qdata=stored.codes.to(torch.int8),
        scale=scale,
        zero_point=-zero / scale,
        target_dtype=getattr(torch, f"int{bits}"),
        block_size=(1, columns),
        dtype=torch.float32,
        activation_quantization=None,
    )
