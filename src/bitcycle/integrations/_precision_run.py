"""What the callbacks of all trainers share: a precision scheduler, meters of the cost, and their state."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from typing import Any

from torch import nn

from bitcycle._cost import Meter
from bitcycle.scheduler import PrecisionScheduler
from bitcycle.schedules import Schedule
from bitcycle.schedules import schedule as as_schedule
from bitcycle.schedules.base import width_of


class PrecisionSettings:
    """The arguments of a callback: a schedule, options of :class:`PrecisionScheduler`, and whether to measure the cost.

    They are checked here, because the scheduler itself is constructed only when training begins.
    """

    def __init__(self, schedule: Schedule | str, measure_cost: bool, options: dict[str, Any]) -> None:
        self.schedule = as_schedule(schedule)
        self.measure_cost = measure_cost
        inspect.signature(PrecisionScheduler).bind(None, self.schedule, **{"total_steps": None, **options})
        self.options = options

    @property
    def total_steps(self) -> int | None:
        """The number of steps that was given; None if the trainer determines it."""
        total: int | None = self.options.get("total_steps")
        return total

    @property
    def where(self) -> tuple[str, ...]:
        """The patterns of ``where``; empty for all sites."""
        where: str | Iterable[str] = self.options.get("where") or ()
        return (where,) if isinstance(where, str) else tuple(where)

    @property
    def key(self) -> str:
        """The name of the state in a trainer's checkpoint, another one for each part of a model."""
        return " ".join(("bitcycle", *self.where))

    def scheduler(self, model: nn.Module, total_steps: int) -> PrecisionScheduler:
        """Return a scheduler at step 0.

        Args:
            model: The converted model.
            total_steps: Number of optimiser steps, unless the options give another.

        Raises:
            ValueError: The model is not converted, or the schedule does not fit.
        """
        return PrecisionScheduler(model, self.schedule, **{"total_steps": total_steps, **self.options})

    def begin(self, model: nn.Module, total_steps: int, metered: Iterable[nn.Module]) -> PrecisionRun:
        """Begin a training run at step 0. Calls of the ``metered`` modules are counted as training passes."""
        meters = [Meter(module) for module in metered] if self.measure_cost else []
        return PrecisionRun(self.scheduler(model, total_steps), meters)


class PrecisionRun:
    """The precision of one training run."""

    def __init__(self, scheduler: PrecisionScheduler, meters: list[Meter]) -> None:
        self.scheduler = scheduler
        self.metrics: dict[str, float] = {}
        """The bits of the last step, and the cost so far; empty before the first step."""
        self._meters = meters

    def step(self) -> None:
        """Note the metrics of the step that ends here and go to the next one."""
        self.metrics = {"bits": float(width_of(self.scheduler.bits)), **self._cost()}
        self.scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint, of plain values."""
        return {"scheduler": self.scheduler.state_dict(), "meters": [meter.state_dict() for meter in self._meters]}

    def resume(self, step: int, state: dict[str, Any] | None) -> None:
        """Go to a step.

        Args:
            step: Number of optimiser steps so far.
            state: What :meth:`state_dict` returned at that step; None or the state of another step if there is none.
                Then the cost is counted from here on.
        """
        if state is None or state["scheduler"]["step"] != step:
            self.scheduler.load_state_dict({"step": step})
            return
        self.scheduler.load_state_dict(state["scheduler"])
        if len(state["meters"]) == len(self._meters):
            for meter, saved in zip(self._meters, state["meters"], strict=True):
                meter.load_state_dict(saved)

    def close(self) -> None:
        """Remove the meters from the model. The bits stay what they are."""
        for meter in self._meters:
            meter.close()

    def _cost(self) -> dict[str, float]:
        if not self._meters:
            return {}
        spent, baseline = (sum(getattr(meter, name) for meter in self._meters) for name in ("bitops", "baseline"))
        if not baseline:
            self.close()
            self._meters = []
            warnings.warn(
                "the cost is not measured: training calls none of the modules that the trainer holds as a whole, only "
                "methods or parts of them. measure_cost=False turns this warning off",
                stacklevel=2,
            )
            return {}
        return {"saving": 1 - spent / baseline, "bitops": float(spent)}
