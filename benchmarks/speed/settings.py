"""What ``python -m benchmarks.speed`` measures. Without torch, for the help of the command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum

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
    """

    models: tuple[str, ...]
    threads: tuple[int, ...]
    forward: int = 7
    backward: int = 8
    rounds: int = FULL_ROUNDS
    parts: tuple[Part, ...] = tuple(Part)
    quick: bool = False


def all_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
