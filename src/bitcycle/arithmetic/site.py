"""A site: one quantised product in a model, and the bits it computes at."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import torch
from torch import Tensor

from bitcycle.arithmetic.observers import current_observers
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip
from bitcycle.kernels.noise import site_key
from bitcycle.kernels.rounding import Width

# The numbers of a site are the elements of one small tensor that is changed in place. A compiled graph reads them at
# each call, so a change never recompiles it. The tensor stays on the CPU, where reading it needs no device sync.
FORWARD, BACKWARD, EVALUATE, STEP, DRAWS, KEY = range(6)


class Unchanged(Enum):
    """The default of bits that a call does not change; ``None`` cannot be it, because it means full precision."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.name


UNCHANGED = Unchanged.UNCHANGED


class Site:
    """The name, the recipe and the bits of one quantised product.

    >>> site = Site("fc", Recipe())
    >>> site.set(forward=4, backward=8)
    >>> site.forward_bits, site.backward_bits, site.evaluate_bits
    (4, 8, 4)
    """

    def __init__(self, name: str, recipe: Recipe, skip: Skip | None = None) -> None:
        self.name = name
        self.recipe = recipe
        self.skip = skip
        """Why this site stays in full precision, if a rule says so."""
        self.followers: list[Site] = []
        """Sites that were discovered after this one and take over its bits, see :mod:`bitcycle.nn.own_products`."""
        self.control = torch.tensor([0, 0, 0, 0, 0, site_key(recipe.seed, name)], device="cpu")

    def set(
        self,
        forward: int | Unchanged | None = UNCHANGED,
        backward: int | Unchanged | None = UNCHANGED,
        evaluate: int | Unchanged | None = UNCHANGED,
    ) -> None:
        """Set the bits of this site; see :func:`write_bits`."""
        write_bits([self], forward, backward, evaluate)

    def begin_step(self, step: int) -> None:
        """Set the training step, from which the noise of this site is drawn."""
        write_bits([self], step=step)

    @property
    def key(self) -> int:
        """The number that the noise of this site is drawn from, together with the step."""
        return int(self.control[KEY])

    def rename(self, name: str) -> None:
        """Change the name, and with it the noise."""
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
        """Return whether neither operands nor grad_output are quantised now.

        It is False inside a compiled graph, which cannot branch on it, and under an observer, which needs the site.
        """
        if torch.compiler.is_compiling() or current_observers():
            return False
        numbers = self.control.tolist()
        return numbers[self._forward_slot(training)] == 0 and numbers[BACKWARD] == 0

    def width(self, training: bool) -> Width:
        """Return the current width of the operands: an integer, or a tensor in a compiled graph."""
        return read(self.control, self._forward_slot(training))

    def _forward_slot(self, training: bool) -> int:
        return FORWARD if training or self.recipe.evaluate_at == "current" else EVALUATE


def write_bits(
    sites: Iterable[Site],
    forward: int | Unchanged | None = UNCHANGED,
    backward: int | Unchanged | None = UNCHANGED,
    evaluate: int | Unchanged | None = UNCHANGED,
    step: int | None = None,
) -> None:
    """Set the bits of sites, and the training step if one is given. Everything that sets bits calls this function.

    Evaluation follows ``forward`` unless ``evaluate`` is given. A new step resets the count of draws.
    """
    if evaluate is UNCHANGED:
        evaluate = forward
    bits = {FORWARD: forward, BACKWARD: backward, EVALUATE: evaluate}
    numbers = {slot: width or 0 for slot, width in bits.items() if not isinstance(width, Unchanged)}
    if step is not None:
        numbers |= {STEP: step, DRAWS: 0}
    for site in sites:
        for each in (site, *site.followers):
            control = each.control.numpy()  # the same memory; several times faster than indexing the tensor
            for slot, number in numbers.items():
                control[slot] = number


def read(control: Tensor, slot: int) -> Width:
    """Return one of the numbers of a site: an integer in eager code, a tensor in a compiled graph."""
    if torch.compiler.is_compiling():
        return control[slot]
    return int(control[slot])
