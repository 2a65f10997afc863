"""Whether a model stays causal and independent of its batch: a check by running it.

One grid for all activations of a tensor would depend on every token of every sample. With a grid per row (token or
sample), neither later tokens nor other samples change a result.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bitcycle._support.names import nearest
from bitcycle.conversion.running import CallArguments, run_model

TOLERANCE = 1e-5
"""Relative changes up to this size are rounding errors of sums; a step of a grid is larger."""
MAX_SAMPLES = 8


@dataclass(frozen=True)
class Change:
    """How much outputs changed that should not have."""

    size: float
    """The largest change, relative to the largest output."""
    predictions: float
    """Share of predictions (the largest output along the last dimension) that are different."""

    @property
    def is_none(self) -> bool:
        """Whether the change is no larger than the rounding of sums, and no prediction is different."""
        return self.size <= TOLERANCE and self.predictions == 0

    def __str__(self) -> str:
        if self.is_none:
            return "no"
        return f"yes, by up to {100 * self.size:.2g} % of the largest output; {100 * self.predictions:.2g} % argmaxes"


@dataclass(frozen=True)
class CausalityReport:
    """What :func:`check_causality` measured. It prints as two lines."""

    later_tokens: Change | None
    """How much later tokens change earlier outputs; None if outputs are not per token, or there is only one token."""
    other_samples: Change | None
    """How much the other samples of a batch change the outputs of a sample; None if there is only one sample."""

    @property
    def is_causal(self) -> bool:
        """Whether later tokens leave earlier outputs as they are, as far as this was measured."""
        return self.later_tokens is None or self.later_tokens.is_none

    @property
    def is_batch_independent(self) -> bool:
        """Whether a sample has the same outputs alone as in its batch, as far as this was measured."""
        return self.other_samples is None or self.other_samples.is_none

    def __str__(self) -> str:
        changes = {
            "later tokens change earlier outputs": self.later_tokens,
            "other samples change the outputs of a sample": self.other_samples,
        }
        return "\n".join(f"{text}: {'not measured' if c is None else c}" for text, c in changes.items())


def check_causality(
    model: nn.Module,
    inputs: Any,
    *,
    tokens: str | int = 0,
    batch_first: bool = True,
    dtype: torch.dtype = torch.float64,
) -> CausalityReport:
    """Measure whether later tokens change earlier outputs, and whether the other samples of a batch change an output.

    A copy of the model runs in evaluation mode, at its evaluation bits, and in double precision, so that the order
    in which sums are computed does not matter. The model itself is not changed. A model that looks at all
    tokens by design, such as BERT, is not causal in full precision either, but should not depend on its batch.

    Args:
        model: A converted model, or a float model.
        inputs: A tensor, a tuple of arguments, or a mapping of keyword arguments, with two samples and two tokens or
            more.
        tokens: Position or keyword of the argument that holds the sequences; by default the first one.
        batch_first: Whether tokens and outputs are of shape (batch, length, ...), or else (length, batch, ...).
        dtype: What the copy computes in. Use ``torch.float32`` if an operation of the model has no double precision; a
            value on the edge between two steps of a grid can then count as a change.

    Returns:
        A :class:`CausalityReport`; ``print`` it, or use ``is_causal`` and ``is_batch_independent``.

    Raises:
        ValueError: The argument with the tokens is not a tensor of two dimensions or more.

    Example:
        >>> import bitcycle as bc
        >>> model = bc.quantize(nn.Linear(8, 8), bc.Recipe(activations="row"))
        >>> bc.set_bits(model, forward=4)
        >>> print(bc.check_causality(model, torch.randn(4, 6, 8)))
        later tokens change earlier outputs: no
        other samples change the outputs of a sample: no
    """
    call = CallArguments.of(inputs)
    arguments: dict[Any, Any] = {**dict(enumerate(call.positional)), **call.keywords}  # by position or keyword
    key = next(iter(arguments)) if tokens == 0 and 0 not in arguments and arguments else tokens
    if key not in arguments:
        known = [str(name) for name in arguments]
        raise ValueError(f"the inputs have no argument {tokens!r}; {nearest(str(tokens), known)}")
    sequences = arguments[key]
    if not isinstance(sequences, Tensor) or sequences.dim() < 2:
        shape = tuple(sequences.shape) if isinstance(sequences, Tensor) else type(sequences).__name__
        raise ValueError(f"the argument {key!r} must be a tensor of shape (batch, length, ...), got {shape}")
    probe = copy.deepcopy(model).to(dtype).eval()
    batch_dim, length_dim = (0, 1) if batch_first else (1, 0)
    batch, length = sequences.shape[batch_dim], sequences.shape[length_dim]
    with torch.no_grad():
        outputs = _run(probe, arguments, dtype)
        later, others = [], []
        if outputs.dim() > 1 and outputs.shape[length_dim] == length:
            for cut in sorted({length // 4, length // 2, 3 * length // 4, length - 1} - {0, length}):
                changed = sequences.clone()
                changed.narrow(length_dim, cut, length - cut).copy_(_other_tokens(sequences, length_dim, cut))
                replaced = {**arguments, key: changed}
                prefixes = (x.narrow(length_dim, 0, cut) for x in (_run(probe, replaced, dtype), outputs))
                later.append(_change(*prefixes))
        if batch > 1 and outputs.dim() > batch_dim and outputs.shape[batch_dim] == batch:
            for row in range(min(batch, MAX_SAMPLES)):
                alone = {name: _sample(x, sequences, batch_dim, row) for name, x in arguments.items()}
                others.append(_change(_run(probe, alone, dtype), outputs.narrow(batch_dim, row, 1)))
    return CausalityReport(_largest(later), _largest(others))


def _run(probe: nn.Module, arguments: dict[str | int, Any], dtype: torch.dtype) -> Tensor:
    """Run the model, and return its logits or the first tensor of its outputs."""
    cast = {name: x.to(dtype) if _is_real(x) else x for name, x in arguments.items()}
    positional = tuple(x for name, x in cast.items() if isinstance(name, int))
    outputs = run_model(probe, CallArguments(positional, {k: x for k, x in cast.items() if isinstance(k, str)}))
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, Mapping) and isinstance(outputs.get("logits"), Tensor):
        outputs = {"logits": outputs["logits"]}
    tensors = outputs.values() if isinstance(outputs, Mapping) else outputs
    first = next((x for x in tensors if _is_real(x) and x.dim() > 0), None)
    if first is None:
        raise ValueError("the model returns no tensor of real numbers to compare")
    return first


def _is_real(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _other_tokens(sequences: Tensor, dim: int, cut: int) -> Tensor:
    """Return other tokens in place of those from a position on. Token numbers stay in the range of those given."""
    later = sequences.narrow(dim, cut, sequences.shape[dim] - cut)
    if sequences.is_floating_point():
        return 1 - 2 * later
    low, high = int(sequences.min()), int(sequences.max())
    if low == high:
        return torch.full_like(later, low - 1 if low > 0 else 1)
    return low + high - later


def _sample(x: Any, sequences: Tensor, batch_dim: int, row: int) -> Any:
    """Return one sample of an argument; what has no batch is returned unchanged."""
    if not isinstance(x, Tensor) or x.dim() <= batch_dim or x.shape[batch_dim] != sequences.shape[batch_dim]:
        return x
    return x.narrow(batch_dim, row, 1)


def _change(outputs: Tensor, expected: Tensor) -> Change:
    is_same = (outputs == expected) | (outputs.isnan() & expected.isnan())
    difference = torch.where(is_same, 0.0, (outputs - expected).abs())
    largest = float(expected[expected.isfinite()].abs().max()) if expected.isfinite().any() else 0.0
    different = (outputs.argmax(-1) != expected.argmax(-1)).double().mean()
    return Change(float(difference.max()) / (largest or 1.0), float(different))


def _largest(changes: list[Change]) -> Change | None:
    if not changes:
        return None
    return Change(float(np.max([c.size for c in changes])), max(c.predictions for c in changes))  # NaN is the largest
