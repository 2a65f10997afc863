"""What is compared: a model in full precision, converted by bitcycle, or converted by another library.

Other libraries do less than bitcycle, and none has a schedule. Brevitas and torch's quantisation-aware training (QAT)
round the forward pass alone and leave gradients in full precision. Int8 training always has 8 bits, with one grid per
row. The operands of attention products stay in full precision.
"""

from __future__ import annotations

import importlib.metadata
import logging
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from benchmarks.speed.models import Workload, make
from bitcycle._support.extras import MissingExtraError
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.conversion.convert import quantize
from bitcycle.lab.format import format_error
from bitcycle.scheduler import PrecisionScheduler

FULL_PRECISION, HALF_PRECISION = "FP32", "bfloat16 autocast"
NOT_INSTALLED = "not installed"
OWN: Mapping[str, tuple[Recipe, str]] = {
    "auto": (Recipe(), "auto"),
    "auto, bfloat16 autocast": (Recipe(), "auto"),
    "simulated": (Recipe(), "simulated"),
    "auto, paper": (Recipe.paper(), "auto"),
    "simulated, paper": (Recipe.paper(), "simulated"),
}
"""Conversions by bitcycle: the recipe, by default the default one, and how it is executed."""
MEASURED_WITH_PEERS = ("resnet-20", "transformer-256", "transformer-512")
_NEVER = 10**8  # total steps of a schedule that does not end


class NotAvailableError(Exception):
    """Something cannot be measured on a model, on this machine. The message says why."""


class Peer(NamedTuple):
    """Another library, and how it converts a model."""

    package: str
    """The package to install."""
    convert: Callable[[nn.Module, int], nn.Module]
    supports_convolutions: bool
    max_bits: int | None = None
    """None if any number of bits is possible, or if the number makes no difference."""


def variants_of(model: str) -> tuple[str, ...]:
    """Return the names of what is compared on a model, full precision first."""
    return (FULL_PRECISION, HALF_PRECISION, *OWN, *(PEERS if model in MEASURED_WITH_PEERS else ()))


def training_step(model: str, variant: str, forward: int, backward: int, quick: bool = False) -> Callable[[], None]:
    """Return a function that runs one step of training: gradients, optimiser and scheduler.

    Raises:
        NotAvailableError: The variant does not exist for the model, here.
    """
    try:
        workload = make(model, quick, of_linear_layers=variant in PEERS)
    except MissingExtraError as error:
        raise NotAvailableError(str(error)) from None
    if variant.endswith(HALF_PRECISION):
        if model == "gcn-sparse":
            raise NotAvailableError("torch has no sparse products in bfloat16")
        workload = workload._replace(loss=_under_autocast(workload.loss))
    if variant in (FULL_PRECISION, HALF_PRECISION):
        return _step(workload)
    if variant in PEERS:
        return _step_of_peer(workload, PEERS[variant], forward)
    recipe, execute = OWN[variant]
    quantize(workload.model, recipe, execute=execute)
    return _step(workload, PrecisionScheduler(workload.model, f"static:{forward}", _NEVER, backward).step)


def _step(workload: Workload, after: Callable[[], None] = lambda: None) -> Callable[[], None]:
    # A small learning rate: however long it is measured, the values of the model stay ordinary ones.
    optimizer = torch.optim.SGD(workload.model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        workload.loss(workload.model).backward()
        optimizer.step()
        after()

    return step


def _under_autocast(loss: Callable[[nn.Module], torch.Tensor]) -> Callable[[nn.Module], torch.Tensor]:
    return torch.autocast("cpu", torch.bfloat16)(loss)


def version_of(peer: Peer) -> str | None:
    """Return the version of a library that is installed, or None."""
    try:
        return importlib.metadata.version(peer.package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _step_of_peer(workload: Workload, peer: Peer, bits: int) -> Callable[[], None]:
    """Convert a model, and try a step. Warnings of the library are hidden: they are for its own users."""
    if not peer.supports_convolutions and any(isinstance(module, nn.Conv2d) for module in workload.model.modules()):
        raise NotAvailableError("only for linear layers")
    if (version := version_of(peer)) is None:
        raise NotAvailableError(NOT_INSTALLED)
    if peer.max_bits is not None and bits > peer.max_bits:
        raise NotAvailableError(f"at most {peer.max_bits} bits")
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            step = _step(workload._replace(model=peer.convert(workload.model, bits)))
            step()
    except Exception as error:  # whatever a library of another version may raise
        reason = f"{peer.package} {version} fails with torch {torch.__version__}: {format_error(error)}"
        raise NotAvailableError(reason) from error
    finally:
        logging.disable(before)
    return step


def _brevitas(model: nn.Module, bits: int) -> nn.Module:
    import brevitas.nn as qnn
    from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerChannelFloat

    settings: dict[str, Any] = {
        "weight_quant": Int8WeightPerChannelFloat,
        "weight_bit_width": bits,
        "input_quant": Int8ActPerTensorFloat,
        "input_bit_width": bits,
        "input_collect_stats_steps": 1,  # the range is a parameter from the second step on
    }

    def replacement(layer: nn.Module) -> nn.Module | None:
        if isinstance(layer, nn.Linear):
            return qnn.QuantLinear(layer.in_features, layer.out_features, layer.bias is not None, **settings)
        if isinstance(layer, nn.Conv2d):
            sizes = (layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding)
            return qnn.QuantConv2d(*sizes, bias=layer.bias is not None, **settings)
        return None

    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            quantized = replacement(layer)
            if quantized is not None:
                quantized.weight, quantized.bias = layer.weight, layer.bias
                setattr(module, name, quantized)
    return model


def _torch_qat(model: nn.Module, bits: int) -> nn.Module:
    from torch.ao import quantization

    fake = quantization.FusedMovingAvgObsFakeQuantize
    model.qconfig = quantization.QConfig(  # type: ignore[assignment]
        activation=fake.with_args(
            observer=quantization.MovingAverageMinMaxObserver,
            quant_min=0,
            quant_max=2**bits - 1,
            dtype=torch.quint8,
        ),
        weight=fake.with_args(
            observer=quantization.MovingAveragePerChannelMinMaxObserver,
            quant_min=-(2 ** (bits - 1)),
            quant_max=2 ** (bits - 1) - 1,
            dtype=torch.qint8,
            qscheme=torch.per_channel_symmetric,
        ),
    )
    return quantization.prepare_qat(model, inplace=True)


def _torchao_int8(model: nn.Module, bits: int) -> nn.Module:
    from torchao.prototype.quantized_training import Int8MixedPrecisionTrainingConfig
    from torchao.quantization import quantize_

    quantize_(model, Int8MixedPrecisionTrainingConfig())
    return model


PEERS: Mapping[str, Peer] = {
    "brevitas": Peer("brevitas", _brevitas, supports_convolutions=True),
    "torch.ao QAT": Peer("torch", _torch_qat, supports_convolutions=True, max_bits=8),
    "torchao int8": Peer("torchao", _torchao_int8, supports_convolutions=False),
}
"""By the name that tables show."""
