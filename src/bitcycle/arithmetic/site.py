"""A site: one quantised product in a model, and the bits it computes at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from bitcycle.arithmetic.products import Counted
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.kernels.noise import site_key
from bitcycle.kernels.rounding import Width

# The numbers of a site live in one small tensor that is changed in place: so a compiled graph reads them anew at each
# call and is never built again. It stays on the CPU, where eager code reads it without waiting for a device.
FORWARD, BACKWARD, EVALUATE, STEP, DRAWS, KEY = range(6)


class Site:
    """The name, the recipe and the bits of one quantised product.

    >>> site = Site("fc", Recipe())
    >>> site.set(forward=4, backward=8)
    >>> site.forward_bits, site.backward_bits, site.evaluate_bits
    (4, 8, 4)
    """

    def __init__(self, name: str, recipe: Recipe, kept: str = "") -> None:
        self.name = name
        self.recipe = recipe
        self.kept = kept
        """Why this site stays in full precision, if a rule says so."""
        self.control = torch.tensor([0, 0, 0, 0, 0, site_key(recipe.seed, name)], device="cpu")

    def set(self, **bits: int | None) -> None:
        """Set any of ``forward``, ``backward`` and ``evaluate``; evaluation follows forward unless it is named."""
        if "forward" in bits:
            bits.setdefault("evaluate", bits["forward"])
        for place, name in ((FORWARD, "forward"), (BACKWARD, "backward"), (EVALUATE, "evaluate")):
            if name in bits:
                self.control[place] = bits[name] or 0

    def begin_step(self, step: int) -> None:
        """Say which step of training this is: noise is drawn from it, anew for each step."""
        self.control[STEP] = step
        self.control[DRAWS] = 0

    @property
    def key(self) -> int:
        """What the noise of this site is drawn from, beside the step."""
        return int(self.control[KEY])

    def rename(self, name: str) -> None:
        """Another name, and the noise that goes with it."""
        self.name = name
        self.control[KEY] = site_key(self.recipe.seed, name)

    @property
    def forward_bits(self) -> int | None:
        return int(self.control[FORWARD]) or None

    @property
    def backward_bits(self) -> int | None:
        return int(self.control[BACKWARD]) or None

    @property
    def evaluate_bits(self) -> int | None:
        return self.forward_bits if self.recipe.evaluate_at == "current" else int(self.control[EVALUATE]) or None

    def in_full_precision(self, training: bool) -> bool:
        """Whether neither operands nor errors are quantised now, which a compiled graph cannot ask."""
        if torch.compiler.is_compiling() or OBSERVERS:
            return False
        numbers = self.control.tolist()
        return numbers[self._place(training)] == 0 and numbers[BACKWARD] == 0

    def width(self, training: bool) -> Width:
        """The width of operands now: a number, or in a compiled graph a tensor."""
        return read(self.control, self._place(training))

    def _place(self, training: bool) -> int:
        return FORWARD if training or self.recipe.evaluate_at == "current" else EVALUATE


def read(control: Tensor, place: int) -> Width:
    """One of the numbers of a site, as compiled and eager code need it."""
    if torch.compiler.is_compiling():
        return control[place]
    return int(control[place])


class Observer:
    """Sees, in eager mode, what the sites do inside of :func:`observing`; the default is not to look."""

    def rounded(self, site: Site, operand: str, before: Tensor, after: Tensor) -> None:
        """An operand went on the grid."""

    def multiplied(self, site: Site, product: Counted, a: Tensor, b: Tensor | None, out: Tensor) -> None:
        """A product ran."""


OBSERVERS: list[Observer] = []
COMPUTING: list[Site] = []
"""The site whose product runs at the moment, while somebody observes."""


@contextmanager
def computing(site: Site) -> Iterator[None]:
    """Mark what runs inside as the product of a site."""
    COMPUTING.append(site)
    try:
        yield
    finally:
        COMPUTING.pop()


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Let the observer see each product that runs inside; layers in full precision then compute on their sites too."""
    OBSERVERS.append(observer)
    try:
        yield
    finally:
        OBSERVERS.remove(observer)
