"""The precision scheduler: it sets the bits of a model according to a schedule, like a learning-rate scheduler."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from torch import nn

from bitcycle.arithmetic.site import Site, check_width, larger, write_bits
from bitcycle.conversion.sites import sites
from bitcycle.schedules import Bits
from bitcycle.schedules import schedule as as_schedule
from bitcycle.schedules.base import validate_integer, validate_steps
from bitcycle.schedules.operands import AnySchedule, AnyStrength, BackwardBits, OperandSchedules, StepBits
from bitcycle.schedules.spec import FULL_STRENGTH

_SCHEDULERS: WeakKeyDictionary[Site, ReferenceType[PrecisionScheduler]] = WeakKeyDictionary()
"""The scheduler that was constructed last for each site."""


class PrecisionScheduler:
    """Sets the bits of a converted model according to a schedule.

    Call :meth:`step` after each step of the optimiser; with gradient accumulation, once for all micro-batches. In
    evaluation mode the model runs at the schedule's q_max and at full strength, unless its recipe says
    ``evaluate_at="current"``. Copies of the model, such as averages of its weights, and its ``state_dict`` carry these
    bits if they are made after the scheduler is constructed. Several schedulers with disjoint ``where`` can control
    several parts of a model. A second scheduler on a site triggers a warning.

    Args:
        model: A converted model, see :func:`bitcycle.quantize`.
        schedule: A schedule, or its spec such as ``"RTH:3-8"``; ``None`` if weights and activations have their own.
        total_steps: Number of optimiser steps in the whole run.
        backward_bits: Bits of grad_output: an integer, ``None`` for full precision, a schedule or its spec. ``"max"``
            is the largest integer width of the operands, or full precision where both operands are full.
        weights: A schedule of weights in place of ``schedule``: a schedule, its spec, or a width.
        activations: A schedule of activations in place of ``schedule``.
        strength: How far operands go to their grids, ``x + strength (Q(x) - x)``: a function
            ``(step, total) -> [0, 1]``, its spec such as ``"join(linear-rise, 0.5, 1)"`` (the grammar is in
            :mod:`bitcycle.schedules.spec`), or a number. It is 1 by default.
        evaluate_bits: Bits of both operands in evaluation mode: an integer, or ``None`` for full precision. ``"max"``
            is the largest width of each operand's schedule, of which full precision is the largest.
        where: Names of sites, with wildcards; by default all sites.

    Raises:
        ValueError: An argument is invalid, the model is not converted, or the schedule does not fit ``total_steps``.

    Example:
        >>> import bitcycle as bc
        >>> model = bc.quantize(nn.Linear(4, 4))
        >>> p = bc.PrecisionScheduler(model, "linear-rise:3-8", total_steps=6, backward_bits=8)
        >>> widths = [p.bits]
        >>> for _ in range(5):
        ...     p.step()
        ...     widths.append(p.bits)
        >>> widths
        [3, 4, 5, 6, 6, 7]
    """

    def __init__(
        self,
        model: nn.Module,
        schedule: AnySchedule | None,
        total_steps: int,
        backward_bits: BackwardBits = "max",
        *,
        weights: AnySchedule | int | None = None,
        activations: AnySchedule | int | None = None,
        strength: AnyStrength | None = None,
        evaluate_bits: int | str | None = "max",
        where: str | Iterable[str] | None = None,
    ) -> None:
        self.operands = OperandSchedules.of(schedule, backward_bits, weights, activations, strength)
        self.schedule = self.operands.weights if schedule is None else as_schedule(schedule)
        self._sites = list(sites(model, where).values())
        self._fixed_evaluation: tuple[Bits, Bits] | None = None
        if evaluate_bits != "max":
            self._fixed_evaluation = (check_width(evaluate_bits, self._sites, "evaluate_bits"),) * 2
        self._set_total_steps(total_steps)
        self._take_over_sites()
        self._go_to(0)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.state_dict().items())
        return f"PrecisionScheduler({settings}, sites={len(self._sites)})"

    @property
    def current(self) -> StepBits:
        """Bits of weights, activations and gradients, and the strength, at the current step.

        Where the grid lacks a width of the schedule, it is the next larger one that the grid has. If the sites have
        different grids, it is that of the first site.
        """
        grid = self._sites[0].settings.grid
        weights, activations, backward = (grid.width_for(bits) for bits in self._scheduled[:3])
        return StepBits(weights, activations, backward, self._scheduled.strength)

    @property
    def bits(self) -> Bits:
        """Bits of weights and activations at the current step; the larger if they differ, full being the largest."""
        weights, activations, _, _ = self.current
        return larger(weights, activations)

    @property
    def backward_bits(self) -> Bits:
        """Bits of gradients at the current step."""
        return self.current.backward

    @property
    def total_steps(self) -> int:
        """Number of optimiser steps in the whole run. Set another number to extend or shorten the run."""
        return self._total_steps

    @total_steps.setter
    def total_steps(self, total_steps: int) -> None:
        self._set_total_steps(total_steps)
        self._go_to(self.current_step)

    def step(self) -> None:
        """Go to the next step. Call it after each step of the optimiser.

        Past ``total_steps`` the bits keep their last value, and the first such step triggers a warning.
        """
        if self.current_step == self.total_steps:
            warnings.warn(
                f"PrecisionScheduler.step() was called more than total_steps={self.total_steps} times: "
                "the bits keep their last value",
                stacklevel=2,
            )
        self._go_to(self.current_step + 1)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint: the step, and the settings it belongs to.

        Operands that do not follow the schedule have their specs, and so has the strength if it is not full.
        """
        operands = {"weights": self.operands.weights, "activations": self.operands.activations}
        overrides = {name: str(each) for name, each in operands.items() if each != self.schedule}
        if self.operands.strength != FULL_STRENGTH:
            overrides["strength"] = str(self.operands.strength)
        return {
            "step": self.current_step,
            "total_steps": self.total_steps,
            "schedule": str(self.schedule),
            "backward_bits": self.operands.backward_setting(self.total_steps),
            **overrides,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to the step of a checkpoint, with exactly the bits and the noise that training had at that point.

        Only the step is loaded. The schedules, ``total_steps`` and ``backward_bits`` stay those of this scheduler, so
        that a resumed run can be extended. A warning says which of them differ.

        Args:
            state: What :meth:`state_dict` returned, or its ``"step"`` alone.

        Raises:
            ValueError: ``state`` has no valid ``"step"``.
        """
        if "step" not in state:
            raise ValueError("this is not the state of a PrecisionScheduler: it has no 'step'")
        step = validate_integer(state["step"], "the step of a checkpoint", 0)
        own = self.state_dict()
        different = [
            f"{name} is {own.get(name, 'not given')!r} here and {state.get(name, 'not given')!r} in the checkpoint"
            for name in {**own, **state}
            if "schedule" in state and name != "step" and state.get(name) != own.get(name)
        ]
        if different:
            warnings.warn(
                f"the loaded state is of another precision schedule: {'; '.join(different)}. Only its step is used",
                stacklevel=2,
            )
        self._go_to(step)

    def _set_total_steps(self, total_steps: int) -> None:
        total_steps = validate_steps(total_steps, "total_steps")
        for grid in {site.settings.grid for site in self._sites}:
            self.operands.check(total_steps, grid.check_schedule)
        self.operands.at(0, total_steps)  # a schedule that does not fit raises here, before anything changes
        self._total_steps = total_steps
        self._baseline = self.operands.baseline(total_steps).at(0, total_steps)
        self._evaluation = self._fixed_evaluation or self.operands.evaluation(total_steps)

    def _take_over_sites(self) -> None:
        """Remember this scheduler on its sites. Warn if another one still controls some of them."""
        taken = 0
        for site in self._sites:
            other = _SCHEDULERS.get(site)
            taken += other is not None and other() is not None
            _SCHEDULERS[site] = ref(self)
        if taken:
            warnings.warn(
                f"another PrecisionScheduler controls {taken} of these {len(self._sites)} sites, and the last one to "
                "step wins: delete it, or give each scheduler its own sites with where=...",
                stacklevel=3,
            )

    def _go_to(self, step: int) -> None:
        self.current_step = step
        self._scheduled = now = self.operands.at(step, self.total_steps)
        write_bits(
            self._sites,
            now.weights,
            now.activations,
            now.backward,
            evaluate_weights=self._evaluation[0],
            evaluate_activations=self._evaluation[1],
            strength=now.strength,
            evaluate_strength=1.0,
            step=step,
            baseline=self._baseline,
        )
