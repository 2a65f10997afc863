"""A site: one quantised product in a model, and the bits it computes at."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum

import torch
from torch import Tensor

from bitcycle.arithmetic.execution import Execution, Means
from bitcycle.arithmetic.observers import current_observers
from bitcycle.arithmetic.recipe import Recipe
from bitcycle.arithmetic.skip import Skip
from bitcycle.kernels.noise import site_key
from bitcycle.kernels.rounding import Width

# The numbers of a site are the elements of one small tensor that is changed in place. A compiled graph reads them at
# each call, so a change never recompiles it. The tensor stays on the CPU, where reading it needs no device sync.
FORWARD, BACKWARD, EVALUATE, STEP, DRAWS, ORIGIN, KEY = range(7)


class Origin(IntEnum):
    """Where the evaluation bits of a site come from. Bits that were set take precedence over those of a checkpoint."""

    NEVER_SET = 0
    CHECKPOINT = 1
    SET = 2


class Unchanged(Enum):
    """The default of bits that a call does not change; ``None`` cannot be it, because it means full precision."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.name


UNCHANGED = Unchanged.UNCHANGED


@dataclass(frozen=True)
class Settings:
    """What the autograd function of a site needs to know of its recipe and its execution."""

    stochastic: bool
    fold: bool
    execution: Execution


_EXPECTED = {
    Execution.SIMULATED: "simulated",
    Execution.INTEGER: "not run yet, integer where exact",
    Execution.FASTEST: "not run yet, integer where faster",
}


class SiteGroup:
    """The sites of one model, which warn once if the model evaluates although no bits were ever set.

    It holds the numbers of the sites, not the sites: a copy of one layer then copies no other layer.
    """

    def __init__(self) -> None:
        self.controls: list[Tensor] = []
        self.warned = False

    def origin(self) -> Origin:
        """Return where the evaluation bits of the model come from: the origin of highest precedence of any site."""
        return Origin(max(int(control[ORIGIN]) for control in self.controls))

    def check_evaluation(self) -> None:
        """Warn at the first evaluation of a model without bits for it."""
        if self.warned or self.origin() is not Origin.NEVER_SET:
            return
        self.warned = True
        warnings.warn(
            "the converted model evaluates in full precision because its bits were never set: call "
            "bc.set_bits(model, evaluate=8), or evaluate=None for full precision; or load a state_dict of the trained "
            "model; or, if this is a copy such as an average of weights, copy the model after constructing its "
            "PrecisionScheduler",
            stacklevel=_level_of_caller(),
        )


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
        self.settings = Settings(recipe.gradients == "stochastic", recipe.fold_scales, Execution.SIMULATED)
        self.means: Means | None = None
        """How the site last computed its three products; None before it ran, or if it is no product of two operands."""
        self.followers: list[Site] = []
        """Sites that were discovered after this one and take over its bits, see :mod:`bitcycle.nn.own_products`."""
        self.control = torch.tensor([0, 0, 0, 0, 0, Origin.NEVER_SET, site_key(recipe.seed, name)], device="cpu")
        self.group = SiteGroup()
        self.join(self.group)

    def join(self, group: SiteGroup) -> None:
        """Make this site one of the sites of a model."""
        self.group = group
        group.controls.append(self.control)

    @property
    def execution(self) -> Execution:
        """How the site computes."""
        return self.settings.execution

    @execution.setter
    def execution(self, execution: Execution) -> None:
        self.settings = replace(self.settings, execution=execution)

    def describe_execution(self) -> str:
        """Return in words how the site last computed, or how it will compute."""
        if self.means is not None:
            return str(self.means)
        return _EXPECTED[self.execution]

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

    @property
    def evaluation_was_set(self) -> bool:
        """Whether the evaluation bits were set or loaded, full precision included."""
        return int(self.control[ORIGIN]) != Origin.NEVER_SET

    def load_evaluation_bits(self, bits: int | None) -> None:
        """Take the evaluation bits of a checkpoint, unless bits of the model were set.

        With ``evaluate_at="current"`` they are the forward bits.
        """
        if self.group.origin() is Origin.SET:
            return
        write_bits([self], bits if self.recipe.evaluate_at == "current" else UNCHANGED, UNCHANGED, bits)
        for each in (self, *self.followers):
            each.control[ORIGIN] = Origin.CHECKPOINT

    def in_full_precision(self, training: bool) -> bool:
        """Return whether neither operands nor grad_output are quantised now.

        It is False inside a compiled graph, which cannot branch on it, and under an observer, which needs the site.
        Otherwise the first evaluation of a model whose bits were never set warns.
        """
        if torch.compiler.is_compiling() or current_observers():
            return False
        numbers = self.control.numpy()
        if not training and numbers[ORIGIN] == Origin.NEVER_SET and self.skip is None:
            self.group.check_evaluation()
        return bool(numbers[self._forward_slot(training)] == 0 and numbers[BACKWARD] == 0)

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
    if EVALUATE in numbers:
        numbers[ORIGIN] = Origin.SET
    if step is not None:
        numbers |= {STEP: step, DRAWS: 0}
    for site in sites:
        for each in (site, *site.followers):
            control = each.control.numpy()  # the same memory
            for slot, number in numbers.items():
                control[slot] = number


def read(control: Tensor, slot: int) -> Width:
    """Return one of the numbers of a site: an integer in eager code, a tensor in a compiled graph."""
    if torch.compiler.is_compiling():
        return control[slot]
    return int(control.numpy()[slot])  # several times faster than indexing the tensor


def _level_of_caller() -> int:
    """Return the ``stacklevel`` at which the caller of this function warns in the code that called the model."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("bitcycle", "torch"):
        level, frame = level + 1, frame.f_back
    return level
