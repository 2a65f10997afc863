"""The kinds of schedules, and the reader of specs that finds them by name.

A new kind of schedule is one file: a frozen dataclass with the decorator :func:`register`, imported by
:mod:`bitcycle.schedules`. Specs then know it by its names, and the contract tests fail until they draw it, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from bitcycle._support.names import nearest
from bitcycle._support.text import short_repr
from bitcycle.schedules.base import Quantity
from bitcycle.schedules.grammar import Node, tree
from bitcycle.schedules.interface import Schedule

Kind = TypeVar("Kind", bound=type[Schedule])

KINDS: list[type[Schedule]] = []
"""The registered kinds of schedules."""

DEFAULT_CYCLES = 8
"""The number of cycles of a spec that names none."""


def register(kind: Kind) -> Kind:
    """Register a kind of schedule, as a decorator of its class.

    Raises:
        ValueError: If another kind has one of its names.
    """
    taken = {name for known in KINDS for name in known.names()}
    for name in kind.names():
        if name in taken:
            raise ValueError(f"another kind of schedule is called {short_repr(name)}")
    KINDS.append(kind)
    return kind


@dataclass
class Reader:
    """Reads the specs of a quantity.

    Args:
        quantity: Bits or strength.
        bits: ``(q_min, q_max)`` for the parts of a spec that name no bits.
        cycles: Number of cycles for the parts of a spec that name none; 8 by default.
    """

    quantity: Quantity
    bits: tuple[int, int] | None = None
    cycles: int | None = None

    def read(self, spec: str) -> Schedule:
        """Return the schedule of a spec."""
        return self.schedule(tree(spec))

    def schedule(self, node: Node) -> Schedule:
        """Return the schedule of a part of a spec."""
        kinds = [kind for kind in KINDS if kind.is_combinator == node.is_call and self.quantity in kind.quantities]
        for kind in kinds:
            if kind.reads(node.name, self.quantity):
                return kind.parse(node, self)
        known = [name for kind in kinds for name in kind.names()]
        if node.is_call:
            raise ValueError(f"unknown combinator {short_repr(node.name)}; {nearest(node.name, known)}")
        if self.quantity is Quantity.STRENGTH:
            raise ValueError(
                f"unknown strength {short_repr(node.text)}: write a number from 0 to 1, PROFILE-SHAPE such as "
                "linear-rise, or join(linear-rise, 0.5, 1)"
            )
        single = ", ".join(name for name in known if "-" not in name)
        combinators = ", ".join(name for kind in KINDS if kind.is_combinator for name in kind.names())
        forms = f"expected {single}, PROFILE-SHAPE such as linear-fall, or {combinators}"
        raise ValueError(f"unknown schedule {short_repr(node.name)}; {nearest(node.name, known, forms)}")

    def open_limits(self, name: str) -> tuple[Any, Any]:
        """Return the limits of a curve whose spec names none."""
        if self.quantity is Quantity.STRENGTH:
            return 0.0, 1.0
        if self.bits is None:
            raise ValueError(f"{name} needs bits: write '{name}:3-8' or give bits=(3, 8)")
        try:
            low, high = self.bits
        except (TypeError, ValueError):
            raise ValueError(
                f"bits must be a pair (q_min, q_max) such as (3, 8), got {short_repr(self.bits)}"
            ) from None
        return low, high
