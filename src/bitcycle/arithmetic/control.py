"""The numbers of a site: its bits, its step and its noise, as the elements of one small tensor."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from bitcycle.arithmetic.precision import STRENGTH_UNITS, Precision
from bitcycle.kernels.rounding import Width

# The tensor is changed in place. A compiled graph reads it at each call, so a change never recompiles it. It stays on
# the CPU, where reading it needs no device sync.
WEIGHTS, ACTIVATIONS, BACKWARD, STEP, DRAWS, ORIGIN, STRENGTH = range(7)
EVALUATE_WEIGHTS, EVALUATE_ACTIVATIONS, EVALUATE_STRENGTH, KEY = range(7, 11)


class Slots(NamedTuple):
    """Where the precision of a forward pass is among the numbers of a site."""

    weights: int
    activations: int
    strength: int


TRAINING = Slots(WEIGHTS, ACTIVATIONS, STRENGTH)
EVALUATION = Slots(EVALUATE_WEIGHTS, EVALUATE_ACTIVATIONS, EVALUATE_STRENGTH)


class Origin(IntEnum):
    """Where the evaluation bits of a site come from. Bits that were set take precedence over those of a checkpoint."""

    NEVER_SET = 0
    CHECKPOINT = 1
    SET = 2


def read(control: Tensor, slot: int) -> Width:
    """Return one of the numbers of a site: an integer in eager code, a tensor in a compiled graph."""
    if torch.compiler.is_compiling():
        return control[slot]
    return int(control.numpy()[slot])  # several times faster than indexing the tensor


def read_precision(control: Tensor, slots: Slots) -> Precision:
    """Return a precision of a site, of numbers in eager code and of tensors in a compiled graph.

    With strength 0, both widths are those of full precision. An exported program has the numbers as constants.
    """
    weights, activations, strength = slots
    if torch.compiler.is_exporting():
        with _disable_current_modes(), torch._C.DisableTorchFunction():  # the trace must not see the tensor
            control = control.clone()
            numbers = control.numpy()
    elif torch.compiler.is_compiling():
        on = control[strength] > 0
        return Precision(control[weights] * on, control[activations] * on, control[strength] * (1 / STRENGTH_UNITS))
    else:
        numbers = control.numpy()
    if numbers[strength] == 0:
        return Precision(0, 0, 0.0)
    return Precision(int(numbers[weights]), int(numbers[activations]), int(numbers[strength]) / STRENGTH_UNITS)
