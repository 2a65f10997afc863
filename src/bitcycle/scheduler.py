"""The precision scheduler puts ``schedule(step)`` into a model, as a learning-rate scheduler does for an optimiser."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from bitcycle.conversion.sites import sites
from bitcycle.kernels.rounding import check_width
from bitcycle.schedules import Bits, Schedule, schedule
from bitcycle.schedules.base import positive, whole


class PrecisionScheduler:
    """Moves the bits of a converted model along a schedule.

    Construct it, and call :meth:`step` after each step of the optimiser; with gradient accumulation that is once for
    all micro-batches. ``backward_bits`` is the fixed width of the errors, the schedule's q_max unless given. In
    evaluation mode the model computes at q_max. ``where`` confines it to the sites whose names match, so that several
    schedulers can drive several parts of a model.

    >>> from bitcycle.conversion.convert import quantize
    >>> model = quantize(nn.Linear(4, 4))
    >>> p = PrecisionScheduler(model, "linear-rise:3-8", total_steps=6, backward_bits=8)
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
        s: Schedule | str,
        total_steps: int,
        backward_bits: int | str | None = "max",
        *,
        where: str | Iterable[str] | None = None,
    ) -> None:
        self.schedule = schedule(s)
        self._sites = list(sites(model, where).values())
        self.current_step = 0
        self.total_steps = total_steps
        self.backward_bits: Bits = (
            self._q_max if backward_bits == "max" else check_width(backward_bits, "backward_bits")
        )
        self._go_to(0)

    @property
    def bits(self) -> Bits:
        """The bits of weights and activations at this step."""
        return self.schedule(self.current_step, self.total_steps)

    @property
    def total_steps(self) -> int:
        """The steps of the whole training; training may be extended (or cut short) by setting another number."""
        return self._total_steps

    @total_steps.setter
    def total_steps(self, total: int) -> None:
        total = positive(total, "total_steps")
        self._q_max = check_width(self.schedule.limits(total)[1], "q_max")
        self.schedule(0, total)  # a schedule that does not fit into so many steps says so, before anything changes
        self._total_steps = total
        if self.current_step:
            self._go_to(self.current_step)

    def step(self) -> None:
        """Go on to the next step: call it after the optimiser's."""
        self._go_to(self.current_step + 1)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs. Only the step is put back; the rest tells what it was made with."""
        return {
            "step": self.current_step,
            "total_steps": self.total_steps,
            "schedule": str(self.schedule),
            "backward_bits": self.backward_bits,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to the step of a checkpoint, with exactly the bits and the noise that training had there.

        Schedule and total are those this scheduler was constructed with, so that a resumed training can be extended.
        """
        if "step" not in state:
            raise ValueError("this is not the state of a PrecisionScheduler: it has no 'step'")
        step = whole(state["step"], "the step of a checkpoint")
        if step < 0:
            raise ValueError(f"the step of a checkpoint is 0 or more, not {step}")
        self._go_to(step)

    def _go_to(self, step: int) -> None:
        self.current_step = step
        forward = check_width(self.bits)
        for site in self._sites:
            site.set(forward=forward, backward=self.backward_bits, evaluate=self._q_max)
            site.begin_step(step)
