"""Other libraries that train on a few bits, each as it is meant to be used.

They do less than bitcycle, and none has a schedule. Brevitas and quantisation-aware training (QAT) round the forward
pass alone and leave gradients in full precision. Int8 training always has 8 bits, with one grid per row. The operands
of attention products stay in full precision.
"""

from __future__ import annotations

import importlib.metadata
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from bitcycle._support.text import format_error

BYTE_BITS = 8


class NotAvailableError(Exception):
    """Something cannot be measured on a model, on this machine. The message says why."""


class Peer(NamedTuple):
    """A library and how it converts a model."""

    package: str
    """The package to install."""
    convert: Callable[[nn.Module, int], nn.Module]
    takes_convolutions: bool
    rounds: str
    """What it rounds, in a few words."""


def failure(peer: Peer, error: Exception) -> str:
    """Return in one line that a library failed."""
    return f"{peer.package} {version_of(peer)} fails with torch {torch.__version__}: {format_error(error)}"


def version_of(peer: Peer) -> str | None:
    """Return the version of a library that is installed, or None."""
    try:
        return importlib.metadata.version(peer.package)
    except importlib.metadata.PackageNotFoundError:
        return None


@contextmanager
def silence() -> Iterator[None]:
    """Hide the warnings of a library: they are for its own users."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


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

    _check_byte(bits)
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


def _torchao_qat(model: nn.Module, bits: int) -> nn.Module:
    from torchao.quantization import quantize_
    from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

    _check_byte(bits)
    dtype = getattr(torch, f"int{bits}")
    activations = IntxFakeQuantizeConfig(dtype, "per_token", is_symmetric=False)
    weights = IntxFakeQuantizeConfig(dtype, "per_channel")
    quantize_(model, QATConfig(activation_config=activations, weight_config=weights, step="prepare"))
    return model


def _torchao_int8(model: nn.Module, bits: int) -> nn.Module:
    from torchao.prototype.quantized_training import Int8MixedPrecisionTrainingConfig
    from torchao.quantization import quantize_

    quantize_(model, Int8MixedPrecisionTrainingConfig())
    return model


def _check_byte(bits: int) -> None:
    if bits > BYTE_BITS:
        raise NotAvailableError(f"at most {BYTE_BITS} bits")


PEERS: Mapping[str, Peer] = {
    "brevitas": Peer("brevitas", _brevitas, True, "weights and activations"),
    "torch.ao QAT": Peer("torch", _torch_qat, True, "weights and activations"),
    "torchao QAT": Peer("torchao", _torchao_qat, False, "weights and activations"),
    "torchao int8": Peer("torchao", _torchao_int8, False, "weights, activations and gradients, always on 8 bits"),
}
"""By the name that tables show."""
