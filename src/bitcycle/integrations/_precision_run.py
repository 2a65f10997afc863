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
    """A schedule, and options of :class:`PrecisionScheduler`.

    They are checked here, because the scheduler itself is constructed only when training begins.
    """

    def __init__(self, schedule: Schedule | str, **options: Any) -> None:
        self.schedule = as_schedule(schedule)
        inspect.signature(PrecisionScheduler).bind(None, self.schedule, **{"total_steps": None, **options})
        self.options = options
        where = options.get("where") or ()
        self.where: tuple[str, ...] = (where,) if isinstance(where, str) else tuple(where)
        """The patterns of ``where``; empty for all sites."""

    def scheduler(self, model: nn.Module, total_steps: int) -> PrecisionScheduler:
        """Return a scheduler at step 0; the options may give another number of steps."""
        return PrecisionScheduler(model, self.schedule, **{"total_steps": total_steps, **self.options})


class PrecisionRun:
    """The precision of one training run after another: what a callback of any trainer does.

    Args:
        settings: The schedule with its options.
        measure_cost: Whether to measure the cost.
    """

    def __init__(self, settings: PrecisionSettings, measure_cost: bool) -> None:
        self.settings = settings
        self.key = " ".join(("bitcycle", *self.settings.where))
        """The name of the state in a trainer's checkpoint, another one for each part of a model."""
        self.scheduler: PrecisionScheduler | None = None
        """The scheduler of the run; None before it begins and after it ends."""
        self.metrics: dict[str, float] = {}
        """The bits of the last step, and the cost so far; empty before the first step."""
        self._measure_cost = measure_cost
        self._meters: list[Meter] = []

    def begin(self, model: nn.Module, total_steps: int, metered: Iterable[nn.Module]) -> None:
        """Begin at step 0, and count the calls of the ``metered`` modules as training passes."""
        self.end()  # a training that failed
        self.scheduler, self.metrics = self.settings.scheduler(model, total_steps), {}
        self._meters = [Meter(module) for module in metered] if self._measure_cost else []

    def step(self) -> None:
        """Note the metrics of the step that ends here and go to the next one."""
        assert self.scheduler is not None
        self.metrics = {"bits": float(width_of(self.scheduler.bits)), **self._cost()}
        self.scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint, of plain values."""
        assert self.scheduler is not None
        return {"scheduler": self.scheduler.state_dict(), "meters": [meter.state_dict() for meter in self._meters]}

    def resume(self, step: int, state: dict[str, Any] | None) -> None:
        """Go to a step.

        Args:
            step: Number of optimiser steps so far.
            state: What :meth:`state_dict` returned at that step; None or the state of another step if there is none.
                Then the cost is counted from here on.
        """
        assert self.scheduler is not None
        if state is None or state["scheduler"]["step"] != step:
            state = {"scheduler": {"step": step}, "meters": []}
        self.scheduler.load_state_dict(state["scheduler"])
        if len(state["meters"]) == len(self._meters):
            for meter, saved in zip(self._meters, state["meters"], strict=True):
                meter.load_state_dict(saved)

    def end(self) -> None:
        """Let go of the model, so that another callback can control it. The bits stay what they are."""
        self._remove_meters()
        self.scheduler = None

    def _remove_meters(self) -> None:
        for meter in self._meters:
            meter.close()
        self._meters = []

    def _cost(self) -> dict[str, float]:
        if not self._meters:
            return {}
        spent, baseline = (sum(getattr(meter, name) for meter in self._meters) for name in ("bitops", "baseline"))
        if baseline:
            return {"saving": 1 - spent / baseline, "bitops": float(spent)}
        self._remove_meters()
        warnings.warn(
            "the cost is not measured: training calls none of the modules that the trainer holds as a whole, only "
            "methods or parts of them. measure_cost=False turns this warning off",
            stacklevel=2,
        )
        return {}
