"""What a site rounds its operands to: a width for weights, another for activations, and the strength of rounding.

With strength ``s`` an operand has the values ``x + s (Q(x) - x)``: those of its grid for 1, unchanged for 0.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bitcycle.kernels.rounding import Width

Strength = float | Tensor
"""A number from 0 to 1: a ``float``, or a tensor inside a compiled graph."""

STRENGTH_UNITS = 2**24
"""Full strength as sites store it: an integer in units of ``1 / 2^24``, which single precision represents exactly."""


class Role(Enum):
    """What an operand is, which decides the width it is rounded to."""

    WEIGHT = "weight"
    ACTIVATION = "activation"


def role_of(x: Tensor) -> Role:
    """Return the role of an operand of which nothing is known: a parameter, or a view of one, is a weight."""
    return Role.WEIGHT if isinstance(x, nn.Parameter) or isinstance(x._base, nn.Parameter) else Role.ACTIVATION


class Precision(NamedTuple):
    """The widths of both roles, and the strength."""

    weights: Width
    activations: Width
    strength: Strength

    def width(self, role: Role) -> Width:
        """Return the width of an operand."""
        return self.weights if role is Role.WEIGHT else self.activations


def blend(x: Tensor, rounded: Tensor, strength: Strength) -> Tensor:
    """Return ``x + strength (rounded - x)``. Values that rounding does not change stay as they are, also infinite."""
    if isinstance(strength, Tensor):
        between = torch.where(strength == 1, rounded, x + strength * (rounded - x))
    elif strength == 1 or rounded is x:
        return rounded
    else:
        between = x + strength * (rounded - x)
    return torch.where(rounded == x, x, between)
