"""A site: one quantised product in a model, and the bits it computes at."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitcycle._support.compiling import constant_while_tracing
from bitcycle.arithmetic.control import (
    ACTIVATIONS,
    BACKWARD,
    DRAWS,
    EVALUATE_ACTIVATIONS,
    EVALUATE_STRENGTH,
    EVALUATE_WEIGHTS,
    EVALUATION,
    KEY,
    ORIGIN,
    STEP,
    STRENGTH,
    TRAINING,
    WEIGHTS,
    Origin,
    read_precision,
)
from bitcycle.arithmetic.execution import Execution, ExecutionPlan
from bitcycle.arithmetic.observers import OBSERVERS
from bitcycle.arithmetic.precision import STRENGTH_UNITS, Precision, Role
from bitcycle.arithmetic.recipe import GradOutput, Recipe
from bitcycle.arithmetic.skip import Skip
from bitcycle.grids import INTEGERS, GridFamily
from bitcycle.kernels.noise import site_key
from bitcycle.schedules.operands import StepBits


class Unchanged(Enum):
    """The default of what a call does not change; ``None`` cannot be it, because it means full precision."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.name


UNCHANGED = Unchanged.UNCHANGED
SetBits = int | Unchanged | None


class Evaluation(NamedTuple):
    """What the operands of a site are rounded to in evaluation mode."""

    weights: int | None
    activations: int | None
    strength: float = 1.0

    def saved(self) -> int | tuple[int | None, int | None, float] | None:
        """Return it for the metadata of a checkpoint: one width if both are equal and the strength is 1."""
        weights, activations, strength = self
        return weights if weights == activations and strength == 1 else (weights, activations, strength)

    @classmethod
    def loaded(cls, saved: int | tuple[int | None, int | None, float] | None) -> Evaluation:
        """Return it from the metadata of a checkpoint."""
        return cls(*saved) if isinstance(saved, tuple) else cls(saved, saved)


@dataclass(frozen=True)
class Settings:
    """What the autograd function of a site needs to know of its recipe and its execution."""

    stochastic: bool
    grad_output: GradOutput
    execution: Execution
    grid: GridFamily = INTEGERS
    hadamard: bool = False


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
    >>> site.set(activations=8)
    >>> site.weight_bits, site.activation_bits
    (4, 8)
    """

    def __init__(self, name: str, recipe: Recipe, skip: Skip | None = None) -> None:
        self.name = name
        self.recipe = recipe
        self.skip = skip
        """Why this site stays in full precision, if a rule says so."""
        self.settings = Settings(
            recipe.gradients == "stochastic", recipe.grad_output, Execution.SIMULATED, recipe.family, recipe.hadamard
        )
        self.plan: ExecutionPlan | None = None
        """How the site last computed its three products; None before it ran."""
        self.roles: tuple[Role, Role] | None = None
        """What both operands of its product are; None before an observer has seen it."""
        self.baseline: StepBits | None = None
        """The static training that its cost is compared with; None: its evaluation bits. A scheduler sets it."""
        self.evaluation_slots = TRAINING if recipe.evaluate_at == "current" else EVALUATION
        """Where the precision of evaluation is among the numbers of the site."""
        self.followers: list[Site] = []
        """Sites that were discovered after this one and take over its bits, see :mod:`bitcycle.nn.layer`."""
        with torch.inference_mode(False):  # a site that is discovered in inference mode changes its bits outside it too
            self.control = torch.zeros(KEY + 1, dtype=torch.int64, device="cpu")
        self.control[ORIGIN] = Origin.NEVER_SET
        self.control[STRENGTH] = self.control[EVALUATE_STRENGTH] = STRENGTH_UNITS
        self.control[KEY] = site_key(recipe.seed, name)
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
        if self.plan is not None:
            return str(self.plan)
        return _EXPECTED[self.execution]

    def set(
        self, forward: SetBits = UNCHANGED, backward: SetBits = UNCHANGED, evaluate: SetBits = UNCHANGED, **others: Any
    ) -> None:
        """Set the bits of this site; see :func:`write_bits`. ``forward`` and ``evaluate`` set both operands."""
        if forward is not UNCHANGED:
            others |= {"weights": forward, "activations": forward}
        if evaluate is not UNCHANGED:
            others |= {"evaluate_weights": evaluate, "evaluate_activations": evaluate}
        write_bits([self], backward=backward, **others)

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
    def weight_bits(self) -> int | None:
        return int(self.control[WEIGHTS]) or None

    @property
    def activation_bits(self) -> int | None:
        return int(self.control[ACTIVATIONS]) or None

    @property
    def forward_bits(self) -> int | None:
        """The larger of both widths; full precision is the largest."""
        return larger(self.weight_bits, self.activation_bits)

    @property
    def backward_bits(self) -> int | None:
        return int(self.control[BACKWARD]) or None

    @property
    def strength(self) -> float:
        return int(self.control[STRENGTH]) / STRENGTH_UNITS

    @property
    def evaluation(self) -> Evaluation:
        """What evaluation rounds to."""
        weights, activations, strength = (int(self.control[slot]) for slot in self.evaluation_slots)
        return Evaluation(weights or None, activations or None, strength / STRENGTH_UNITS)

    @property
    def evaluate_bits(self) -> int | None:
        """The larger of both widths in evaluation; full precision is the largest."""
        return larger(*self.evaluation[:2])

    @property
    def evaluation_was_set(self) -> bool:
        """Whether the evaluation bits were set or loaded, full precision included."""
        return int(self.control[ORIGIN]) != Origin.NEVER_SET

    def load_evaluation(self, saved: Evaluation) -> None:
        """Take the evaluation bits of a checkpoint, unless bits of the model were set.

        With ``evaluate_at="current"`` they are the forward bits.
        """
        if self.group.origin() is Origin.SET:
            return
        weights, activations, strength = saved
        for bits in (weights, activations):
            self.settings.grid.check_width(bits, "the evaluation bits of a checkpoint")
        if self.recipe.evaluate_at == "current":
            write_bits([self], weights, activations, strength=strength)
        else:
            write_bits([self], evaluate_weights=weights, evaluate_activations=activations, evaluate_strength=strength)
        for each in (self, *self.followers):
            each.control[ORIGIN] = Origin.CHECKPOINT

    def in_full_precision(self, training: bool) -> bool:
        """Return whether neither operands nor grad_output are quantised now.

        It is False inside a compiled graph, which cannot branch on it, and under an observer, which needs the site. An
        exported program has its bits as constants.
        Otherwise the first evaluation of a model whose bits were never set warns.

        Raises:
            RuntimeError: A transform of ``torch.func`` is applied to a quantised product.
        """
        if torch.compiler.is_exporting():
            return not any(self.precision(training)[:2])
        if torch.compiler.is_compiling() or OBSERVERS.get():
            return False
        transforms = torch._C._functorch.get_interpreter_stack()
        numbers = self.control.numpy() if transforms is None else _read_under_transforms(self.control)
        if not training and numbers[ORIGIN] == Origin.NEVER_SET and self.skip is None:
            self.group.check_evaluation()
        weights, activations, strength = TRAINING if training else self.evaluation_slots
        is_full = numbers[strength] == 0 or (numbers[weights] == 0 and numbers[activations] == 0)
        if is_full and numbers[BACKWARD] == 0:
            return True
        if transforms is not None:
            raise RuntimeError(
                "torch.func cannot differentiate a quantised product, nor map it over a batch (vmap): use "
                "torch.autograd.grad or backward(), with torch.func.functional_call if the parameters are arguments, "
                "and products of batches instead of vmap; or set full precision first, bc.set_bits(model, "
                "forward=None, backward=None)"
            )
        return False

    def precision(self, training: bool) -> Precision:
        """Return the current precision of the operands; see :func:`read_precision`.

        Raises:
            ValueError: ``torch.export`` is tracing the model in a way in which its bits cannot become constants.
        """
        if torch.compiler.is_exporting():
            check_export(training)
        return read_precision(self.control, TRAINING if training else self.evaluation_slots)


def _read_under_transforms(control: Tensor) -> NDArray[np.int64]:
    """Return the numbers of a site where ``torch.func`` would wrap them in a tensor without memory."""
    with torch._C._DisableFuncTorch():
        return control.numpy()


def larger(first: int | None, second: int | None) -> int | None:
    """Return the larger of two widths; full precision is the largest."""
    return None if first is None or second is None else max(first, second)


def write_bits(
    sites: Iterable[Site],
    weights: SetBits = UNCHANGED,
    activations: SetBits = UNCHANGED,
    backward: SetBits = UNCHANGED,
    *,
    evaluate_weights: SetBits = UNCHANGED,
    evaluate_activations: SetBits = UNCHANGED,
    strength: float | Unchanged = UNCHANGED,
    evaluate_strength: float | Unchanged = UNCHANGED,
    step: int | None = None,
    baseline: StepBits | None = None,
) -> None:
    """Set the bits of sites, and the training step if one is given. Everything that sets bits calls this function.

    A site takes the narrowest width that its grid has and that is at least the given one. Evaluation follows training
    unless its own bits are given. A new step resets the count of draws. New bits come with the baseline of their cost.
    """
    given = {
        WEIGHTS: weights,
        ACTIVATIONS: activations,
        BACKWARD: backward,
        EVALUATE_WEIGHTS: weights if evaluate_weights is UNCHANGED else evaluate_weights,
        EVALUATE_ACTIVATIONS: activations if evaluate_activations is UNCHANGED else evaluate_activations,
    }
    widths = {slot: width for slot, width in given.items() if not isinstance(width, Unchanged)}
    numbers: dict[int, int] = {}
    if widths.keys() & EVALUATION:
        numbers[ORIGIN] = Origin.SET
    evaluate_strength = strength if evaluate_strength is UNCHANGED else evaluate_strength
    for slot, share in ((STRENGTH, strength), (EVALUATE_STRENGTH, evaluate_strength)):
        if not isinstance(share, Unchanged):
            numbers[slot] = round(share * STRENGTH_UNITS)
    if step is not None:
        numbers |= {STEP: step, DRAWS: 0}
    # Models have thousands of sites: the hash of a grid and a write to each number would take half of the time.
    by_grid: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    for site in sites:
        for each in (site, *site.followers):
            grid = each.settings.grid
            if id(grid) not in by_grid:
                all_numbers = numbers | {slot: grid.width_for(bits) or 0 for slot, bits in widths.items()}
                by_grid[id(grid)] = _int64(all_numbers.keys()), _int64(all_numbers.values())
            if widths:
                each.baseline = baseline
            each.control.numpy().put(*by_grid[id(grid)])  # the same memory


def _int64(numbers: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(numbers, np.int64)


def check_width(bits: object, sites: Iterable[Site], what: str = "bits") -> int | None:
    """Return a width that the grids of all sites have, or ``None`` for full precision.

    Raises:
        ValueError: A grid does not have this width. ``what`` names the value in the message.
    """
    width = None
    for grid in {site.settings.grid for site in sites}:
        width = grid.check_width(bits, what)
    return width


def check_export(training: bool) -> None:
    """Raise a ValueError if ``torch.export`` is tracing a model in a way in which its bits cannot become constants."""
    _check_export(training, torch.compiler.is_dynamo_compiling())


@constant_while_tracing
def _check_export(training: bool, strict: bool) -> bool:
    if training:
        raise ValueError(
            "torch.export would keep the bits and the noise of one training step for ever: call model.eval() first, "
            "which exports the model at its evaluation bits"
        )
    if strict:
        raise ValueError("torch.export of a converted model needs strict=False, so that its bits become constants")
    return True


def _level_of_caller() -> int:
    """Return the ``stacklevel`` at which the caller of this function warns in the code that called the model."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("bitcycle", "torch"):
        level, frame = level + 1, frame.f_back
    return level
