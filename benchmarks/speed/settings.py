"""What ``python -m benchmarks.speed`` measures. Without torch, for the help of the command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum

from bitcycle._support.names import nearest
from bitcycle.schedules.base import MAX_BITS, validate_positive

MODELS = {
    "resnet-20": "ResNet-20",
    "resnet-20-channels-last": "ResNet-20, channels last",
    "transformer-256": "Transformer 256",
    "transformer-512": "Transformer 512",
    "lstm": "LSTM 200",
    "gcn": "GCN 256",
    "gcn-sparse": "GCN 256, sparse",
    "resnet-8": "ResNet-8",
}
"""The models, with the names that tables show."""

QUICK_ROUNDS = 2
FULL_ROUNDS = 15


class Part(StrEnum):
    """What can be measured."""

    STEPS = "steps"
    MEMORY = "memory"
    KERNELS = "kernels"
    OVERHEAD = "overhead"


@dataclass(frozen=True)
class BenchSettings:
    """What to measure.

    Args:
        models: Names of :data:`MODELS`.
        threads: Numbers of threads; each is measured by itself.
        forward: Bits of weights and activations.
        backward: Bits of gradients.
        rounds: Timed rounds; each runs everything that is compared once.
        parts: What to measure.
        quick: Measure small versions of everything, to see that it runs.

    Raises:
        ValueError: A value is out of range, or there is no such model.

    Example:
        >>> BenchSettings(models=("resnet",), threads=(1,))
        Traceback (most recent call last):
            ...
        ValueError: unknown model 'resnet': did you mean 'resnet-8'?
    """

    models: tuple[str, ...]
    threads: tuple[int, ...]
    forward: int = 7
    backward: int = 8
    rounds: int = FULL_ROUNDS
    parts: tuple[Part, ...] = tuple(Part)
    quick: bool = False

    def __post_init__(self) -> None:
        for model in self.models:
            if model not in MODELS:
                raise ValueError(f"unknown model {model!r}: {nearest(model, MODELS)}")
        for name, bits in (("forward", self.forward), ("backward", self.backward)):
            if not 1 <= bits <= MAX_BITS:
                raise ValueError(f"--{name} must be from 1 to {MAX_BITS} bits, got {bits}")
        validate_positive(self.rounds, "--rounds")
        for threads in self.threads:
            validate_positive(threads, "--threads")


def all_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
