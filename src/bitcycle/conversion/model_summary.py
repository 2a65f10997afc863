"""What conversion did: every site, every layer left alone with the reason, and where quantisation loses information."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from bitcycle._support.text import table
from bitcycle.arithmetic import Observer, Site, observing
from bitcycle.conversion.convert import reasons_of
from bitcycle.conversion.rules import is_chosen
from bitcycle.conversion.sites import conversions, join_names
from bitcycle.conversion.tracing import Watch, call, undisturbed

Bits = int | None

PLAIN = ("no product", "normalisation stays in full precision")
"""Reasons that are printed once for all layers of a class."""


@dataclass
class SiteRow:
    """A site, its bits now and, if inputs were given, the signal-to-noise ratio of its operands in decibels."""

    name: str
    layer: str
    forward: Bits
    backward: Bits
    evaluate: Bits
    kept: str = ""
    snr: dict[str, float] = field(default_factory=dict)

    @property
    def ran(self) -> bool:
        """Whether the site ran on the inputs that were given."""
        return bool(self.snr)


@dataclass
class LeftRow:
    """A layer that was left alone, and why."""

    name: str
    layer: str
    reason: str


@dataclass
class Summary:
    """Every site and every layer left alone; prints as a table."""

    sites: list[SiteRow]
    left_alone: list[LeftRow]
    measured: bool

    def __str__(self) -> str:
        heads = ["site", "layer", "forward", "backward", "evaluate"] + (["SNR in dB"] if self.measured else [])
        rows = [self._cells(row) for row in self.sites]
        text = table(heads, rows) if rows else "no sites"
        plain = Counter((row.layer, row.reason) for row in self.left_alone if row.reason in PLAIN)
        others = [row for row in self.left_alone if row.reason not in PLAIN]
        left = [[row.name or "(the model)", row.layer, row.reason] for row in others]
        left += [[f"({count} of them)", layer, reason] for (layer, reason), count in plain.items()]
        return text + ("\n\n" + table(["left alone", "layer", "reason"], left) if left else "")

    def _cells(self, row: SiteRow) -> list[str]:
        bits = ["full" if b is None else str(b) for b in (row.forward, row.backward, row.evaluate)]
        if row.kept:
            bits[2] += f" ({row.kept})"
        noise = ", ".join(f"{name} {_decibel(value)}" for name, value in row.snr.items()) or "not run"
        return [row.name or "(the model)", row.layer, *bits] + ([noise] if self.measured else [])


def summary(model: nn.Module, inputs: Any = None) -> Summary:
    """Every site with its bits, and every layer left alone with the reason; ``print`` it.

    With example inputs (a tensor, a tuple of arguments, or a mapping of keywords) the model runs once, in the mode
    it is in and without gradients: each site then shows the signal-to-noise ratio of its operands at the bits it
    computed at, ``10 log10(sum x^2 / sum (x - q)^2)``, and products that no layer accounts for are found and listed.

    >>> from bitcycle.conversion.convert import quantize, set_bits
    >>> model = quantize(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    >>> set_bits(model, forward=4, backward=8)
    >>> print(summary(model))
    site  layer   forward  backward  evaluate
    0     Linear  4        8         4
    <BLANKLINE>
    left alone   layer  reason
    (1 of them)  ReLU   no product
    """
    rows = {
        id(site): SiteRow(
            join_names(name, local),
            conversion.original.__name__,
            site.forward_bits,
            site.backward_bits,
            site.evaluate_bits,
            site.kept,
        )
        for name, conversion in conversions(model)
        for local, site in conversion.sites.items()
    }
    modules = dict(model.named_modules())
    left = [
        LeftRow(name, type(modules[name]).__name__.removeprefix("Quantized"), reason)
        for name, reason in reasons_of(model).items()
        if name in modules
    ]
    if inputs is not None:
        found = _measure(model, inputs, rows)
        left = [row for row in left if "no product" not in row.reason or row.name not in found]
        for row in left:
            if row.name in found:
                run = found.pop(row.name)
                row.reason += "" if is_chosen(row.reason) else f"; {run.reason}"
        left += found.values()
    return Summary(list(rows.values()), left, measured=inputs is not None)


def _measure(model: nn.Module, inputs: Any, rows: dict[int, SiteRow]) -> dict[str, LeftRow]:
    """Run the model once: fill in the ratios, and give back the modules that multiply without a site."""
    powers = _Powers()
    found: dict[str, LeftRow] = {}

    def seen(name: str, module: nn.Module, operation: str, *_: Any) -> None:
        found[name] = LeftRow(name, type(module).__name__, f"runs {operation} outside of sites")

    with undisturbed(model), observing(powers), torch.no_grad(), Watch(model, seen):
        call(model, inputs)
    for (site, operand), (signal, noise) in powers.seen.items():
        if site in rows:
            rows[site].snr[operand] = _ratio(signal, noise)
    return found


class _Powers(Observer):
    """Adds up the power of each operand, and of what rounding changed in it."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, str], tuple[float, float]] = {}

    def rounded(self, site: Site, operand: str, before: Tensor, after: Tensor) -> None:
        signal, noise = self.seen.get((id(site), operand), (0.0, 0.0))
        signal += float(before.double().square().sum())
        noise += float((before.double() - after.double()).square().sum())
        self.seen[id(site), operand] = (signal, noise)


def _ratio(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 and math.isfinite(signal) else math.nan


def _decibel(value: float) -> str:
    return "exact" if value == math.inf else f"{value:.1f}"
