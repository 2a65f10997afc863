"""The summary of a conversion: every site, every skipped layer and why, and where rounding loses information."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from bitcycle._support.text import table
from bitcycle.arithmetic import Observer, Site, observing
from bitcycle.arithmetic.site import Evaluation, larger
from bitcycle.arithmetic.skip import Skip, SkipKind, explain
from bitcycle.conversion.running import preserve_state, run_on_copies
from bitcycle.conversion.sites import conversions
from bitcycle.conversion.skip_reasons import why_skipped
from bitcycle.grids import INTEGERS, GridFamily
from bitcycle.nn.families import load_families
from bitcycle.nn.layer import original_class, show_forward, show_width
from bitcycle.nn.site_names import join_names
from bitcycle.nn.tracing import ProductsOutside, ProductTracer
from bitcycle.schedules import Bits

ROUTINE = {SkipKind.NO_PRODUCT, SkipKind.NORMALISATION, SkipKind.NOT_RUN_YET}
"""The kinds that are printed once for all layers of a class."""


@dataclass
class SiteRow:
    """A site with its current bits and, if inputs were given, the signal-to-noise ratio of its operands in decibels."""

    name: str
    layer: str
    weights: Bits
    activations: Bits
    backward: Bits
    evaluation: Evaluation
    strength: float = 1.0
    skip: Skip | None = None
    """Why the site stays in full precision, if a rule says so."""
    snr: dict[str, float] = field(default_factory=dict)
    execution: str = ""
    """How the site computes what its recipe says, and why not in integers."""

    @property
    def forward(self) -> Bits:
        """The larger width of both operands; full precision is the largest."""
        return larger(self.weights, self.activations)

    @property
    def evaluate(self) -> Bits:
        """The larger width of both operands in evaluation mode."""
        return larger(*self.evaluation[:2])

    @property
    def ran(self) -> bool:
        """Whether the site ran on the inputs that were given."""
        return bool(self.snr)


@dataclass
class SkippedRow:
    """A layer that stays in full precision, wholly or in part."""

    name: str
    layer: str
    skips: tuple[Skip, ...]

    @property
    def reason(self) -> str:
        """Why the layer is skipped, in words."""
        return explain(self.skips)

    @property
    def is_routine(self) -> bool:
        """Whether one line for all layers of the class is enough."""
        return all(skip.kind in ROUTINE for skip in self.skips)


@dataclass
class Summary:
    """Every site and every skipped layer of a model. It prints as a table."""

    sites: list[SiteRow]
    skipped: list[SkippedRow]
    measured: bool
    """Whether inputs were given."""
    grid: GridFamily = INTEGERS
    """What the widths mean."""

    def __str__(self) -> str:
        heads = ["site", "layer", "forward", "backward", "evaluate"] + (["SNR (dB)"] if self.measured else [])
        heads.append("execution")
        rows = [self._cells(row) for row in self.sites]
        text = table(heads, rows) if rows else "no sites"
        counts = Counter((row.layer, row.reason) for row in self.skipped if row.is_routine)
        lines = [[row.name or "(the model)", row.layer, row.reason] for row in self.skipped if not row.is_routine]
        lines += [[f"({count} layer{'s' * (count != 1)})", layer, reason] for (layer, reason), count in counts.items()]
        text += "\n\n" + table(["skipped", "layer", "reason"], lines) if lines else ""
        if self.grid == INTEGERS:
            return text
        widths = sorted({bits for row in self.sites for bits in (row.weights, row.activations) if bits})
        meaning = "".join(f"; {bits} bits: {self.grid.describe(bits)}" for bits in widths)
        errors = sorted({row.backward for row in self.sites if row.backward})
        meaning += "".join(f"; errors of {bits} bits: {self.grid.describe(bits, error=True)}" for bits in errors)
        return f"{text}\n\ngrid: {self.grid.name}{meaning}"

    def _cells(self, row: SiteRow) -> list[str]:
        forward = show_forward(row.weights, row.activations, row.strength)
        bits = [forward, show_width(row.backward), show_forward(*row.evaluation)]
        if row.skip is not None:
            bits[2] += f" ({explain([row.skip])})"
        noise = ", ".join(f"{name} {_decibel(value)}" for name, value in row.snr.items()) or "not run"
        measured = [noise] if self.measured else []
        return [row.name or "(the model)", row.layer, *bits, *measured, row.execution]


def summary(model: nn.Module, inputs: Any = None) -> Summary:
    """Return every site of a model with its bits, and every skipped layer with the reason, as a printable table.

    With example inputs the model runs once, in its current mode and without gradients. Each site then shows the
    signal-to-noise ratio of its operands at the bits that were used, ``10 log10(sum x^2 / sum (x - q)^2)``, and
    products that run outside any site are listed. The last column shows how each site executes: in integers, or
    simulated and why. Buffers, attributes of modules and the random state are restored.

    Args:
        model: A converted model, or a float model.
        inputs: A tensor, a tuple of arguments, or a mapping of keyword arguments.

    Returns:
        A :class:`Summary` with ``sites`` and ``skipped``.

    Example:
        >>> import bitcycle as bc
        >>> model = bc.quantize(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), execute="simulated")
        >>> bc.set_bits(model, forward=4, backward=8)
        >>> print(bc.summary(model))
        site  layer   forward  backward  evaluate  execution
        0     Linear  4        8         4         simulated
        <BLANKLINE>
        skipped    layer  reason
        (1 layer)  ReLU   no product
    """
    load_families()
    power, outside = _PowerMeter(), ProductsOutside()
    if inputs is not None:
        with preserve_state(model), observing(power), torch.no_grad(), ProductTracer(model, outside):
            run_on_copies(model, inputs)
    rows = [
        SiteRow(
            join_names(name, local),
            conversion.original.__name__,
            site.weight_bits,
            site.activation_bits,
            site.backward_bits,
            site.evaluation,
            site.strength,
            site.skip,
            power.ratios(site),
            site.describe_execution(),
        )
        for name, conversion in conversions(model)
        for local, site in conversion.sites.items()
    ]
    skipped = []
    for name, module in model.named_modules():
        skips = why_skipped(model, name, module)
        if module in outside and not any(skip.kind.is_chosen for skip in skips):
            skips = tuple(s for s in skips if not s.kind.denies_products and s.kind is not SkipKind.RAN_OUTSIDE_SITES)
            skips += (Skip(SkipKind.RAN_OUTSIDE_SITES, tuple(outside[module])),)
        if skips:
            skipped.append(SkippedRow(name, original_class(module).__name__, skips))
    grid = next((conversion.recipe.family for _, conversion in conversions(model)), INTEGERS)
    return Summary(rows, skipped, inputs is not None, grid)


class _PowerMeter(Observer):
    """Adds up the power of each operand and of its rounding error."""

    def __init__(self) -> None:
        self.totals: dict[Site, dict[str, tuple[float, float]]] = {}

    def rounded(self, site: Site, operand: str, before: Tensor, after: Tensor) -> None:
        operands = self.totals.setdefault(site, {})
        signal, noise = operands.get(operand, (0.0, 0.0))
        signal += float(before.double().square().sum())
        noise += float((before.double() - after.double()).square().sum())
        operands[operand] = (signal, noise)

    def ratios(self, site: Site) -> dict[str, float]:
        """Return the signal-to-noise ratio of each operand of a site."""
        return {operand: _ratio(*powers) for operand, powers in self.totals.get(site, {}).items()}


def _ratio(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 and math.isfinite(signal) else math.nan


def _decibel(value: float) -> str:
    return "exact" if value == math.inf else f"{value:.1f}"
