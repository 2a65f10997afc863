"""Recipes: how sites quantise."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

Granularity = Literal["tensor", "channel", "row"]


@dataclass(frozen=True)
class Recipe:
    """How sites quantise. The default is the paper's.

    ``weights``, ``activations``: what shares one grid. ``tensor``: everything. ``channel``: an output channel of a
    weight, a feature channel of an activation. ``row``: a vector along the last dimension of a weight or of a linear
    layer's input, a sample of a convolution's input.
    ``attention``, ``features``: the same for the operands of attention products and for the node features of graphs.
    ``gradients``: how the error at a site's output is rounded onto the backward bits.
    ``bias``: put biases on the forward bits too. ``embeddings``: put embedding vectors on the forward bits too.
    ``aggregation``: ``quantized`` puts features on the forward bits before a graph network aggregates them, and the
    error at the aggregation's output on the backward bits (Q-Agg); ``full`` leaves aggregation alone (FP-Agg).
    ``evaluate_at``: in evaluation mode compute at the schedule's q_max, or at the bits training is at (``current``).
    ``seed``: of the noise for stochastic rounding.

    >>> Recipe(gradients="nearest", weights="tensor").activations
    'tensor'
    """

    weights: Granularity = "channel"
    activations: Granularity = "tensor"
    attention: Granularity = "row"
    features: Granularity = "row"
    gradients: Literal["stochastic", "nearest"] = "stochastic"
    bias: bool = False
    embeddings: bool = False
    aggregation: Literal["full", "quantized"] = "full"
    evaluate_at: Literal["max", "current"] = "max"
    seed: int = 0

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):
            value, kind = getattr(self, field.name), hints[field.name]
            choices = get_args(kind)
            if choices and value not in choices:
                known = " or ".join(map(repr, choices))
                raise ValueError(f"Recipe({field.name}=...) is {known}, not {value!r}")
            if not choices and type(value) is not kind:
                raise ValueError(f"Recipe({field.name}=...) is of type {kind.__name__}, not {value!r}")
