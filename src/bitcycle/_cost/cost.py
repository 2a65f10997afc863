"""The cost of a model: multiply-accumulates of each product, and BitOps at any bits or on any schedule.

A product of ``macs`` multiply-accumulates with operands of ``a`` and ``b`` bits costs ``macs * a * b`` BitOps. Training
computes three products per layer: the output at ``q x q`` bits, the input gradient and the weight gradient at ``g x q``
bits each, with ``q`` the forward and ``g`` the backward bits. A product in full precision counts as ``32 x 32``. All
numbers are exact integers.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from bitcycle._cost.devices import Device, device_named
from bitcycle._support.names import nearest
from bitcycle._support.text import table
from bitcycle.arithmetic import AggregationProduct
from bitcycle.schedules import Bits, Constant, Schedule
from bitcycle.schedules import schedule as as_schedule
from bitcycle.schedules.base import FULL_WIDTH, checked_bits, positive, width_of

EFFECTIVE = FULL_WIDTH**2
"""BitOps of one effective MAC: a multiply-accumulate in full precision."""

Price = Callable[[int, int, int], float]
"""A function ``(macs, a, b)`` that returns the price of a product with operands of ``a`` and ``b`` bits."""


class Convention(StrEnum):
    """Which operations of a training run count, and at which bits."""

    EXACT = "exact"
    """Every product that training computes, at the bits of its operands."""
    PAPER = "paper"
    """The products of all layers at the schedule's bits, ``q^2 + 2 q g`` each, including layers that stay in full
    precision and gradients that are not computed; without the aggregation of graphs."""
    AUTHORS = "authors"
    """Like ``paper``, plus 4 operations per layer-normalised element, as the authors' tool counts."""


def _convention_named(name: str) -> Convention:
    try:
        return Convention(name)
    except ValueError:
        raise ValueError(f"unknown convention {name!r}; {nearest(name, Convention)}") from None


@dataclass(frozen=True)
class Row:
    """One product of a model over one training step.

    Args:
        name: Name of the site, or of the module that multiplies in full precision.
        layer: Class of the layer.
        product: Kind of product: ``Linear``, ``Convolution``, or the name of a torch operation.
        macs: Multiply-accumulates of the forward product.
        input_gradient: Multiply-accumulates of the input gradient; 0 if training does not compute it.
        weight_gradient: Multiply-accumulates of the weight gradient; 0 if training does not compute it.
        quantized: Whether the product is computed at the scheduled bits; if not, it counts as 32 x 32.
        weight_quantized: Whether the second operand is quantised too; the edge weights of a graph are not.

    Example:
        >>> Row("fc", "Linear", "Linear", 10, 10, 10, quantized=True).bitops(forward=4, backward=8)
        800
    """

    name: str
    layer: str
    product: str
    macs: int
    input_gradient: int
    weight_gradient: int
    quantized: bool
    weight_quantized: bool = True

    def bitops(self, forward: int, backward: int) -> int:
        """Return the BitOps of the three products.

        Args:
            forward: Forward bits ``q`` as a number; 32 is full precision.
            backward: Backward bits ``g`` as a number.

        Returns:
            ``macs q q + input_gradient g q + weight_gradient g q`` for a quantised product.
        """
        return int(self.price(forward, backward, bitops))

    def price(self, forward: int, backward: int, price: Price) -> float:
        """Return the price of the three products, by any measure of one product.

        Args:
            forward: Forward bits as a number; 32 is full precision.
            backward: Backward bits as a number.
            price: The measure, such as :func:`bitops` or :meth:`Device.time`.

        Returns:
            The sum over the three products.
        """
        a, grad_output = (forward, backward) if self.quantized else (FULL_WIDTH, FULL_WIDTH)
        b = a if self.weight_quantized else FULL_WIDTH
        return (
            price(self.macs, a, b)
            + price(self.input_gradient, grad_output, b)
            + price(self.weight_gradient, grad_output, a)
        )


def bitops(macs: int, a: int, b: int) -> int:
    """Return the BitOps of a product: ``macs * a * b``."""
    return macs * a * b


@dataclass(frozen=True)
class Cost:
    """The cost of one training step of a model, product by product. :func:`bitcycle.cost` makes it.

    Args:
        rows: The products that are counted.
        uncounted: Products that no rule can count; no number includes them.
        normalised: Number of elements that layer normalisation returns.

    Example:
        >>> c = Cost((Row("fc", "Linear", "Linear", 10, 10, 10, quantized=True),))
        >>> print(c)
        name  layer   product  MACs  input gradient  weight gradient  precision
        fc    Linear  Linear   10    10              10               scheduled
        <BLANKLINE>
        10 MACs in a forward pass
    """

    rows: tuple[Row, ...]
    uncounted: tuple[str, ...] = ()
    normalised: int = 0

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the forward pass, over all products."""
        return sum(row.macs for row in self.rows)

    def where(self, *patterns: str) -> Cost:
        """Return the part of the cost whose names match, for models on several schedules.

        Args:
            *patterns: Names of products; ``*`` and ``?`` are wildcards.

        Returns:
            A cost of the matching products.

        Raises:
            ValueError: If no product matches.
        """
        rows = tuple(row for row in self.rows if any(fnmatch.fnmatchcase(row.name, p) for p in patterns))
        if not rows:
            known = [row.name for row in self.rows]
            raise ValueError(f"no product matches {', '.join(map(repr, patterns))}; {nearest(patterns[0], known)}")
        return Cost(rows)

    def bitops(self, forward: Bits, backward: Bits = None) -> int:
        """Return the BitOps of one training step: a forward and a backward pass.

        Args:
            forward: Bits of weights and activations; ``None`` is full precision, which counts as 32.
            backward: Bits of the gradients; full precision by default.

        Returns:
            The sum over all products.

        Example:
            >>> Cost((Row("fc", "Linear", "Linear", 10, 10, 10, True),)).bitops(forward=4, backward=8)
            800
        """
        q, g = (width_of(checked_bits(bits, most=FULL_WIDTH)) for bits in (forward, backward))
        return sum(row.bitops(q, g) for row in self.rows)

    def training(
        self,
        schedule: Schedule | str,
        steps: int,
        backward_bits: Bits | str = "max",
        convention: Convention | str = Convention.EXACT,
    ) -> int:
        """Return the BitOps of a whole training run.

        Args:
            schedule: A schedule, or its spec.
            steps: Number of training steps.
            backward_bits: Bits of the gradients; ``"max"`` is the schedule's q_max, ``None`` is full precision.
            convention: Which operations count: ``"exact"``, ``"paper"`` or ``"authors"``; see :class:`Convention`.

        Returns:
            The sum over all steps and products.

        Raises:
            ValueError: If ``steps`` is below 1, or the schedule or the convention is unknown.

        Example:
            >>> c = Cost((Row("fc", "Linear", "Linear", 10, 10, 10, True),))
            >>> c.training("static:4", steps=100, backward_bits=8)
            80000
        """
        counting = _convention_named(convention)
        s = as_schedule(schedule)
        backward = self._backward(s, steps, backward_bits)
        histogram = s.histogram(steps)
        if counting is Convention.EXACT:
            return sum(n * self.bitops(bits, backward) for bits, n in histogram.items())
        operations = self.layer_macs if counting is Convention.PAPER else self.authors_operations
        g = width_of(backward)
        return sum(n * operations * (q * q + 2 * q * g) for q, n in _numbers(histogram))

    def saving(
        self,
        schedule: Schedule | str,
        steps: int,
        backward_bits: Bits | str = "max",
        convention: Convention | str = Convention.EXACT,
        against: Schedule | str = "max",
    ) -> float:
        """Return the share of the cost of a baseline that a schedule saves: ``1 - cost / cost of the baseline``.

        The default baseline is the same model trained at the schedule's q_max throughout, with the same gradient bits.
        For a schedule with steps in full precision it is the largest integer width of the schedule, and its gradients
        have that width too unless ``backward_bits`` is given; such a schedule can cost more than the baseline. Another
        baseline has the gradient bits of the schedule, unless it is ``"full"``: then its gradients are in full
        precision.

        Args:
            schedule: A schedule, or its spec.
            steps: Number of training steps, of the schedule and of the baseline.
            backward_bits: Bits of the gradients; ``"max"`` is the schedule's q_max, ``None`` is full precision.
            convention: Which operations count; see :class:`Convention`.
            against: The baseline: ``"max"`` for static at the largest integer width of the schedule, or a schedule or
                spec such as ``"full"``.

        Returns:
            The saving; negative if the schedule costs more than the baseline, 0 if nothing is counted.

        Example:
            >>> c = Cost((Row("fc", "Linear", "Linear", 10, 10, 10, True),))
            >>> round(c.saving("CR:3-8", steps=64_000), 3), c.saving("static:8", steps=10, against="full")
            (0.367, 0.9375)
        """
        s = as_schedule(schedule)
        backward = self._backward(s, steps, backward_bits)
        if against == "max":
            baseline: Schedule = Constant(s.baseline(steps))
            baseline_backward = self._backward(baseline, steps, backward_bits)
        else:
            baseline = as_schedule(against)
            baseline_backward = None if baseline == Constant(None) else backward
        spent = self.training(s, steps, backward, convention)
        total = self.training(baseline, steps, baseline_backward, convention)
        return 1 - spent / total if total else 0.0

    def time_ratio(
        self, schedule: Schedule | str, steps: int, backward_bits: Bits | str = "max", device: str | Device = "a100"
    ) -> float:
        """Return an ESTIMATE of the training time on a device, relative to static q_max on the same device.

        Only products count. A product runs at the narrowest width of the device that holds both its operands.

        Args:
            schedule: A schedule, or its spec.
            steps: Number of training steps.
            backward_bits: Bits of the gradients; ``"max"`` is the schedule's q_max, ``None`` is full precision.
            device: A device, or a name of :data:`DEVICES`.

        Returns:
            The ratio; 1 is the time of static q_max, or means that nothing is counted.

        Raises:
            ValueError: If the device is unknown.

        Example:
            >>> c = Cost((Row("fc", "Linear", "Linear", 10, 10, 10, True),))
            >>> c.time_ratio("static:4", steps=10, device="a100"), c.time_ratio("CR:5-8", steps=10, device="a100")
            (1.0, 1.0)
        """
        s = as_schedule(schedule)
        chosen = device_named(device) if isinstance(device, str) else device
        backward = width_of(self._backward(s, steps, backward_bits))

        def seconds(plan: Schedule) -> float:
            return sum(
                n * sum(row.price(q, backward, chosen.time) for row in self.rows)
                for q, n in _numbers(plan.histogram(steps))
            )

        total = seconds(Constant(s.limits(steps)[1]))
        return seconds(s) / total if total else 1.0

    @property
    def layer_macs(self) -> int:
        """Forward multiply-accumulates of layers, without the aggregation of graphs."""
        return sum(row.macs for row in self.rows if row.product != AggregationProduct.kind)

    @property
    def authors_operations(self) -> int:
        """Forward operations as the authors' tool counts them: ``layer_macs``, and 4 per layer-normalised element."""
        return self.layer_macs + 4 * self.normalised

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "macs": self.macs,
            "rows": [asdict(row) for row in self.rows],
            "uncounted": list(self.uncounted),
            "authors_operations": self.authors_operations,
        }

    def __str__(self) -> str:
        heads = ["name", "layer", "product", "MACs", "input gradient", "weight gradient", "precision"]
        lines = [
            [
                row.name,
                row.layer,
                row.product,
                *(f"{n:,}" for n in (row.macs, row.input_gradient, row.weight_gradient)),
                "scheduled" if row.quantized else "full",
            ]
            for row in self.rows
        ]
        return table(heads, lines) + f"\n\n{self.macs:,} MACs in a forward pass" + self.warning()

    def warning(self) -> str:
        """Return the line to print with every total if something is not counted, else nothing."""
        return f"\nNOT counted: {'; '.join(self.uncounted)}" if self.uncounted else ""

    def _backward(self, s: Schedule, steps: int, backward_bits: Bits | str) -> Bits:
        positive(steps, "steps")
        if backward_bits == "max":
            return s.limits(steps)[1]
        return checked_bits(backward_bits, "backward_bits", FULL_WIDTH)


def _numbers(histogram: dict[Bits, int]) -> list[tuple[int, int]]:
    """Return the bits as numbers, each with its number of steps."""
    return [(width_of(bits), n) for bits, n in histogram.items()]
