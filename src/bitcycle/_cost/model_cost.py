"""The cost of a model: multiply-accumulates of each product, and BitOps at any bits or on any schedule.

A product of ``macs`` multiply-accumulates with operands of ``a`` and ``b`` bits costs ``macs * a * b`` BitOps. Training
computes three products per layer: the output at ``a x w`` bits, the input gradient at ``g x w`` and the weight gradient
at ``g x a``, with ``w`` the bits of weights, ``a`` those of activations and ``g`` the backward bits. Both operands of a
product of two activations have ``a`` bits. An operand in full precision, or of a strength below 1, counts as 32 bits.
All numbers are exact integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from bitcycle._cost.devices import DEVICES, Device
from bitcycle._support.names import nearest, validate_name
from bitcycle._support.text import table
from bitcycle.arithmetic import AggregationProduct, Role
from bitcycle.arithmetic.site import UNCHANGED, Unchanged
from bitcycle.grids import grid_family
from bitcycle.grids.family import DEFAULT
from bitcycle.nn.site_names import matches
from bitcycle.schedules import Bits, Schedule
from bitcycle.schedules import schedule as as_schedule
from bitcycle.schedules.base import FULL_WIDTH, bits_of, validate_bits, width_of
from bitcycle.schedules.operands import AnySchedule, AnyStrength, BackwardBits, OperandSchedules, step_cost

Price = Callable[[int, int, int], float]
"""A function of three numbers that returns a price: of a product, from its multiply-accumulates and the widths of both
operands; or of a step, from the widths of weights, activations and gradients."""


class Convention(StrEnum):
    """Which operations of a training run count, and at which bits."""

    EXACT = "exact"
    """Every product that training computes, at the bits of its operands."""
    PAPER = "paper"
    """The products of all layers at the schedule's bits, ``q^2 + 2 q g`` each, including layers that stay in full
    precision and gradients that are not computed; without the aggregation of graphs."""
    AUTHORS = "authors"
    """Like ``paper``, plus 4 operations per layer-normalised element, as the authors' tool counts."""


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
        operands: What both operands are: ``"weight"`` or ``"activation"``.

    Example:
        >>> Row("fc", "Linear", "Linear", 10, 10, 10, quantized=True).price((4, 4, 8))
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
    operands: tuple[str, str] = (Role.ACTIVATION.value, Role.WEIGHT.value)

    def price(self, widths: tuple[int, ...], measure: Price | None = None) -> float:
        """Return the price of the three products, by any measure of one product.

        Args:
            widths: Bits of weights, activations and gradients as numbers; 32 is full precision.
            measure: The measure, such as :meth:`Device.time`; by default BitOps, the product of its three arguments.

        Returns:
            The sum over the three products.
        """
        measure = measure or (lambda macs, a, b: macs * a * b)
        weights, activations, grad_output = widths if self.quantized else (FULL_WIDTH,) * 3
        a, b = (weights if operand == Role.WEIGHT.value else activations for operand in self.operands)
        b = b if self.weight_quantized else FULL_WIDTH
        products = ((self.macs, a, b), (self.input_gradient, grad_output, b), (self.weight_gradient, grad_output, a))
        return sum(measure(*product) for product in products)


@dataclass(frozen=True)
class Cost:
    """The cost of one training step of a model, product by product. :func:`bitcycle.cost` makes it.

    Args:
        rows: The products that are counted.
        uncounted: Products that no rule can count; no number includes them.
        normalised: Number of elements that layer normalisation returns.
        grid: What the widths mean, see :mod:`bitcycle.grids`. Where the grid lacks a width of a schedule, the next
            larger one that it has counts, as in training; a constant width that it lacks is an error, as there.

    Example:
        >>> c = Cost((Row("fc", "Linear", "Linear", 10, 10, 10, quantized=True),))
        >>> print(c)
        name  layer   product  MACs  input gradient  weight gradient  precision
        fc    Linear  Linear     10              10               10  scheduled
        <BLANKLINE>
        10 MACs in a forward pass
    """

    rows: tuple[Row, ...]
    uncounted: tuple[str, ...] = ()
    normalised: int = 0
    grid: str = DEFAULT

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the forward pass, over all products."""
        return sum(row.macs for row in self.rows)

    def where(self, *patterns: str) -> Cost:
        """Return the part of the cost whose names match, for models on several schedules.

        Args:
            *patterns: Names of products, with wildcards. A container includes everything inside it.

        Returns:
            A cost of the matching products. What is not counted in the whole model stays listed, with its place.

        Raises:
            ValueError: If no product matches.
        """
        rows = tuple(row for row in self.rows if any(matches(row.name, pattern) for pattern in patterns))
        if not rows:
            known = [row.name for row in self.rows]
            raise ValueError(f"no product matches {', '.join(map(repr, patterns))}; {nearest(patterns[0], known)}")
        return Cost(rows, self.uncounted, grid=self.grid)

    def bitops(
        self,
        forward: Bits | Unchanged = UNCHANGED,
        backward: Bits = None,
        *,
        weights: Bits | Unchanged = UNCHANGED,
        activations: Bits | Unchanged = UNCHANGED,
    ) -> int:
        """Return the BitOps of one training step: a forward and a backward pass.

        Args:
            forward: Bits of weights and activations; ``None`` is full precision, which counts as 32.
            backward: Bits of the gradients; full precision by default.
            weights: Bits of weights, in place of ``forward``.
            activations: Bits of activations, in place of ``forward``.

        Returns:
            The sum over all products.

        Raises:
            ValueError: If bits are out of range, or those of an operand are missing.

        Example:
            >>> c = Cost((Row("fc", "Linear", "Linear", 10, 10, 10, True),))
            >>> c.bitops(forward=4, backward=8), c.bitops(weights=4, activations=8, backward=6)
            (800, 1040)
        """
        w, a = (forward if own is UNCHANGED else own for own in (weights, activations))
        if isinstance(w, Unchanged) or isinstance(a, Unchanged):
            raise ValueError("give forward, or the bits of weights and of activations")
        widths = tuple(width_of(validate_bits(bits, maximum=FULL_WIDTH)) for bits in (w, a, backward))
        return int(sum(row.price(widths) for row in self.rows))

    def training(
        self,
        schedule: Schedule | str,
        steps: int,
        backward_bits: BackwardBits = "max",
        convention: Convention | str = Convention.EXACT,
        *,
        weights: AnySchedule | int | None = None,
        activations: AnySchedule | int | None = None,
        strength: AnyStrength | None = None,
    ) -> int:
        """Return the BitOps of a whole training run.

        Args:
            schedule: A schedule, or its spec.
            steps: Number of training steps.
            backward_bits: Bits of the gradients: an integer, ``None`` for full precision, a schedule or its spec.
                ``"max"`` is the largest integer width of the operands, and full precision where both are.
            convention: Which operations count: ``"exact"``, ``"paper"`` or ``"authors"``; see :class:`Convention`.
            weights: The schedule of weights in place of ``schedule``, or a width.
            activations: The schedule of activations in place of ``schedule``, or a width.
            strength: The strength: a function, its spec or a number. Steps below 1 compute in floating point, and their
                operands count as full precision.

        Returns:
            The sum over all steps and products.

        Raises:
            ValueError: If ``steps`` is below 1, or the schedule or the convention is unknown.

        Example:
            >>> c = Cost((Row("fc", "Linear", "Linear", 10, 10, 10, True),))
            >>> c.training("static:4", steps=100, backward_bits=8)
            80000
        """
        schedules = self._schedules(steps, schedule, backward_bits, weights, activations, strength)
        return int(self._total(schedules, steps, self._step_price(convention)))

    def saving(
        self,
        schedule: Schedule | str,
        steps: int,
        backward_bits: BackwardBits = "max",
        convention: Convention | str = Convention.EXACT,
        against: Schedule | str = "max",
        *,
        weights: AnySchedule | int | None = None,
        activations: AnySchedule | int | None = None,
        strength: AnyStrength | None = None,
    ) -> float:
        """Return the share of the cost of a baseline that a schedule saves: ``1 - cost / cost of the baseline``.

        The default baseline is the same model trained throughout at the largest integer width of both operands, which
        is q_max. Its gradients have that width too, unless ``backward_bits`` is given; of a schedule of gradients, its
        largest integer width. A schedule with steps in full precision can cost more than the baseline. Another baseline
        has the gradient bits of that baseline, unless it is ``"full"``: then its gradients are in full precision. All
        arguments but ``against`` are those of :meth:`training`.

        Args:
            against: The baseline: ``"max"`` for static at the largest integer width of the schedule, or a schedule or
                spec such as ``"full"``.

        Returns:
            The saving; negative if the schedule costs more than the baseline, 0 if nothing is counted.

        Example:
            >>> c = Cost((Row("fc", "Linear", "Linear", 10, 10, 10, True),))
            >>> round(c.saving("CR:3-8", steps=64_000), 3), c.saving("static:8", steps=10, against="full")
            (0.367, 0.9375)
        """
        schedules = self._schedules(steps, schedule, backward_bits, weights, activations, strength)
        baseline = schedules.baseline(steps, None if against == "max" else as_schedule(against))
        price = self._step_price(convention)
        total = self._total(baseline, steps, price)
        return 1 - self._total(schedules, steps, price) / total if total else 0.0

    def time_ratio(
        self,
        schedule: Schedule | str,
        steps: int,
        backward_bits: BackwardBits = "max",
        device: str | Device = "a100",
        *,
        weights: AnySchedule | int | None = None,
        activations: AnySchedule | int | None = None,
        strength: AnyStrength | None = None,
    ) -> float:
        """Return an ESTIMATE of the training time on a device, relative to the baseline of :meth:`saving` there.

        Only products count. A product runs at the narrowest width of the device that holds both its operands, on the
        grid of the model. All arguments but ``device`` are those of :meth:`training`.

        Args:
            device: A device, or a name of :data:`DEVICES`.

        Returns:
            The ratio; 1 is the time of the baseline, or means that nothing is counted.

        Raises:
            ValueError: If the device is unknown.

        Example:
            >>> c = Cost((Row("fc", "Linear", "Linear", 10, 10, 10, True),))
            >>> c.time_ratio("static:4", steps=10, device="a100"), c.time_ratio("CR:5-8", steps=10, device="a100")
            (1.0, 1.0)
        """
        schedules = self._schedules(steps, schedule, backward_bits, weights, activations, strength)
        chosen = DEVICES[validate_name(device, DEVICES, "device")] if isinstance(device, str) else device
        time = partial(chosen.time, grid=self.grid)

        def price(*widths: int) -> float:
            return sum(row.price(widths, time) for row in self.rows)

        total = self._total(schedules.baseline(steps), steps, price)
        return self._total(schedules, steps, price) / total if total else 1.0

    def _schedules(self, steps: int, *arguments: Any) -> OperandSchedules:
        """Return the schedules that arguments describe, whose widths the grid has.

        A baseline is not checked: its width is derived from theirs.
        """
        schedules = OperandSchedules.of(*arguments)
        if self.grid != DEFAULT:
            schedules.check(steps, grid_family(self.grid).check_schedule)
        return schedules

    def _total(self, schedules: OperandSchedules, steps: int, price: Price) -> float:
        """Return the sum over all steps of the price of a step at its widths, which are those that the grid has."""
        grid = grid_family(self.grid)

        def used(width: int) -> int:
            return width_of(grid.width_for(bits_of(width)))

        return sum(n * price(*map(used, widths)) for widths, n in schedules.histogram(steps).items())

    def _step_price(self, convention: Convention | str) -> Price:
        """Return the BitOps of a step as a function of the widths of weights, activations and gradients."""
        counting = Convention(validate_name(convention, Convention, "convention"))
        if counting is Convention.EXACT:
            return lambda *widths: sum(row.price(widths) for row in self.rows)
        operations = self.layer_macs if counting is Convention.PAPER else self.authors_operations
        return lambda w, a, g: operations * step_cost(w, a, g)

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
        counts = ((row.macs, row.input_gradient, row.weight_gradient) for row in self.rows)
        lines = [
            [row.name, row.layer, row.product, *map("{:,}".format, numbers), "scheduled" if row.quantized else "full"]
            for row, numbers in zip(self.rows, counts, strict=True)
        ]
        return table(heads, lines, right=heads[3:6]) + f"\n\n{self.macs:,} MACs in a forward pass" + self.warning()

    def warning(self) -> str:
        """Return the line to print with every total if something is not counted, else nothing."""
        return f"\nNOT counted: {'; '.join(self.uncounted)}" if self.uncounted else ""
