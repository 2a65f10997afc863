"""The cost of a model: multiply-accumulates of each product, and BitOps at any bits or on any schedule.

A product of ``macs`` multiply-accumulates with operands of ``a`` and ``b`` bits costs ``macs * a * b`` BitOps. Training
runs three: the output at ``q x q`` bits, the input gradient and the weight gradient at ``g x q`` each, with ``q`` the
forward and ``g`` the backward bits. What stays in full precision is ``32 x 32``. All figures are exact integers.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bitcycle._cost.devices import Device, device_named
from bitcycle._support.names import nearest
from bitcycle.schedules import Bits, Constant, Schedule, schedule
from bitcycle.schedules.base import FULL, FULL_WIDTH, checked_bits, positive, width_of

CONVENTIONS = ("exact", "paper", "authors")
EFFECTIVE = FULL_WIDTH**2
"""BitOps that make one effective MAC: a multiply-accumulate in full precision."""

Price = Callable[[int, int, int], float]
"""What so many multiply-accumulates of two widths cost."""


@dataclass(frozen=True)
class Row:
    """One product of the model, over one pass: a site, or what multiplies in full precision."""

    name: str
    layer: str
    product: str
    macs: int
    """Multiply-accumulates of the forward product."""
    input_gradient: int
    weight_gradient: int
    """Those of the gradient products; 0 where training does not compute them."""
    quantized: bool
    """Whether it computes on the scheduled bits; else everything is 32 x 32."""
    weight_quantized: bool = True
    """Whether the second operand does too: the edge weights of a graph do not."""

    @property
    def kind(self) -> str:
        return "site" if self.quantized else "full precision"

    def bitops(self, forward: int, backward: int) -> int:
        """BitOps of its three products at the given widths."""
        return int(self.price(forward, backward, bitops))

    def price(self, forward: int, backward: int, price: Price) -> float:
        """The price of its three products at the given widths."""
        a, error = (forward, backward) if self.quantized else (FULL_WIDTH, FULL_WIDTH)
        b = a if self.weight_quantized else FULL_WIDTH
        return price(self.macs, a, b) + price(self.input_gradient, error, b) + price(self.weight_gradient, error, a)


def bitops(macs: int, a: int, b: int) -> int:
    """BitOps of a product."""
    return macs * a * b


@dataclass(frozen=True)
class Cost:
    """What one training step of a model costs, product by product; see :func:`bitcycle.cost`."""

    rows: tuple[Row, ...]
    uncounted: tuple[str, ...] = ()
    """Products that no rule knows: the figures do not include them."""
    normalised: int = 0
    """Elements that layer normalisation puts out."""

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the forward pass, all products together."""
        return sum(row.macs for row in self.rows)

    def where(self, *patterns: str) -> Cost:
        """The part of the cost whose names match, for models on several schedules."""
        rows = tuple(row for row in self.rows if any(fnmatch.fnmatchcase(row.name, p) for p in patterns))
        if not rows:
            known = [row.name for row in self.rows]
            raise ValueError(f"no product matches {', '.join(map(repr, patterns))}; {nearest(patterns[0], known)}")
        return Cost(rows)

    def bitops(self, forward: Bits, backward: Bits = None) -> int:
        """BitOps of one training step (a forward and a backward pass) at the given bits; ``None`` is 32.

        >>> Cost((Row("fc", "Linear", "Linear", 10, 10, 10, True),)).bitops(forward=4, backward=8)
        800
        """
        q, g = (width_of(checked_bits(bits)) for bits in (forward, backward))
        return sum(row.bitops(q, g) for row in self.rows)

    def training(
        self, s: Schedule | str, steps: int, backward_bits: Bits | str = "max", convention: str = "exact"
    ) -> int:
        """BitOps of a whole training on a schedule, with gradients on ``backward_bits`` (q_max unless given).

        ``convention="paper"`` charges the products of all layers at the schedule's bits, ``q^2 + 2 q b`` each, whatever
        stays in full precision or is not computed, and leaves out aggregation; ``"authors"`` counts in addition, as the
        authors' tool did, 4 operations for each layer-normed element.
        """
        if convention not in CONVENTIONS:
            raise ValueError(f"unknown convention {convention!r}; {nearest(convention, CONVENTIONS)}")
        s = schedule(s)
        backward = self._backward(s, steps, backward_bits)
        if convention == "exact":
            return sum(n * self.bitops(bits, backward) for bits, n in _histogram(s, steps))
        operations = self.layer_macs if convention == "paper" else self.authors_operations
        g = width_of(backward)
        return sum(n * operations * (q * q + 2 * q * g) for q, n in _widths(s, steps))

    def saving(
        self,
        s: Schedule | str,
        steps: int,
        backward_bits: Bits | str = "max",
        convention: str = "exact",
        against: Schedule | str = "max",
    ) -> float:
        """The share of the cost that a schedule saves against static q_max, or another schedule such as ``"full"``."""
        s = schedule(s)
        if against == "max":
            baseline: Schedule = Constant(s.limits(steps)[1])
        else:
            baseline = schedule(against)
        backward = self._backward(s, steps, backward_bits)
        baseline_backward = None if baseline == Constant(None) else backward
        spent = self.training(s, steps, backward, convention)
        total = self.training(baseline, steps, baseline_backward, convention)
        return 1 - spent / total if total else 0.0

    def time_ratio(
        self, s: Schedule | str, steps: int, backward_bits: Bits | str = "max", device: str | Device = "a100"
    ) -> float:
        """An ESTIMATE of the time of training on a device, relative to static q_max there: products alone.

        A product runs at the narrowest width the device has that holds both its operands.
        """
        s = schedule(s)
        chosen = device_named(device) if isinstance(device, str) else device
        backward = self._backward(s, steps, backward_bits)
        high = Constant(s.limits(steps)[1])

        def seconds(plan: Schedule) -> float:
            return sum(
                n * sum(row.price(q, width_of(backward), chosen.time) for row in self.rows)
                for q, n in _widths(plan, steps)
            )

        total = seconds(high)
        return seconds(s) / total if total else 1.0

    @property
    def layer_macs(self) -> int:
        """Forward multiply-accumulates without aggregation: the products of layers alone."""
        return sum(row.macs for row in self.rows if row.product != "Aggregation")

    @property
    def authors_operations(self) -> int:
        """Forward operations as the authors' tool counts them: products of layers, and 4 per layer-normed element."""
        return self.layer_macs + 4 * self.normalised

    def as_dict(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "macs": self.macs,
            "rows": [asdict(row) for row in self.rows],
            "uncounted": list(self.uncounted),
            "authors_operations": self.authors_operations,
        }

    def __str__(self) -> str:
        from bitcycle._support.text import table

        lines = [
            [
                row.name,
                row.layer,
                row.product,
                *(f"{n:,}" for n in (row.macs, row.input_gradient, row.weight_gradient)),
                row.kind,
            ]
            for row in self.rows
        ]
        heads = ["name", "layer", "product", "MACs", "input gradient", "weight gradient", "bits"]
        text = table(heads, lines) + f"\n\n{self.macs:,} MACs in a forward pass"
        return text + self.warning()

    def warning(self) -> str:
        """What to print with every total if something is not counted."""
        return f"\nNOT counted: {'; '.join(self.uncounted)}" if self.uncounted else ""

    def _backward(self, s: Schedule, steps: int, backward_bits: Bits | str) -> Bits:
        positive(steps, "steps")
        return s.limits(steps)[1] if backward_bits == "max" else checked_bits(backward_bits, "backward_bits")


def _histogram(s: Schedule, steps: int) -> Iterable[tuple[Bits, int]]:
    """How many steps there are at each width."""
    counts = np.bincount(s.all_widths(steps))
    return [(None if width == FULL else width, int(n)) for width, n in enumerate(counts) if n]


def _widths(s: Schedule, steps: int) -> Iterable[tuple[int, int]]:
    return [(width_of(bits), n) for bits, n in _histogram(s, steps)]
