"""Precision schedules as a model converter, the extension point of torchtitan. It does not need torchtitan itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from bitcycle.arithmetic.control import STEP
from bitcycle.conversion.convert import quantize
from bitcycle.conversion.sites import sites
from bitcycle.integrations._precision_run import PrecisionRun, PrecisionSettings
from bitcycle.schedules import Schedule


class PrecisionConverter:
    """Converts a model, and then sets its bits according to a schedule after each step of the optimiser.

    It has the methods of torchtitan's ``ModelConverter``. The trainer calls ``convert`` on the new model, before it is
    sharded, compiled or divided into stages, and ``post_optimizer_hook`` after each step. Save the converter with the
    trainer's checkpoints: it has ``state_dict`` and ``load_state_dict``. Stages of a pipeline are copies of the
    converted model: call :meth:`attach` with them before a resumed training continues.

    Args:
        schedule: A schedule, or its spec such as ``"RTH:3-8"``.
        total_steps: Number of optimiser steps in the whole run.
        backward_bits: Bits of grad_output, as in :class:`bitcycle.PrecisionScheduler`: an integer, ``None`` for full
            precision, ``"max"``, or the spec of a schedule.
        conversion: Arguments of :func:`bitcycle.quantize`, such as ``{"keep": "output"}``.
        options: Other arguments of :class:`bitcycle.PrecisionScheduler`, such as ``where``.

    Raises:
        ValueError: The schedule is invalid.
        TypeError: An option is unknown.

    Example:
        >>> converter = PrecisionConverter("linear-rise:3-8", total_steps=6, backward_bits=8)
        >>> model = nn.Linear(4, 4)
        >>> converter.convert(model)
        >>> converter.post_optimizer_hook(model)
        >>> model
        QuantizedLinear(in_features=4, out_features=4, bias=True, bits=4/8)
    """

    def __init__(
        self,
        schedule: Schedule | str,
        total_steps: int,
        backward_bits: int | str | None = "max",
        *,
        conversion: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        options = {"backward_bits": backward_bits, **options}
        self._settings = PrecisionSettings(schedule, measure_cost=False, options=options)
        self._total_steps = total_steps
        self._conversion = conversion or {}
        self._parts: list[nn.Module] = []
        self._runs: list[PrecisionRun] = []

    def convert(self, model: nn.Module) -> None:
        """Convert the model in place and set the bits of the first step.

        Args:
            model: The model, which may be on the meta device.

        Raises:
            ValueError: The model is wrapped, compiled or converted already, or an option is invalid.
        """
        quantize(model, **self._conversion)
        self.attach(model)

    def attach(self, model: nn.Module | Sequence[nn.Module]) -> None:
        """Set the bits of this model from now on, beginning with those of the current step.

        Call it with copies of the converted model, such as the stages of a pipeline, if training resumes: a state that
        is loaded reaches only what is attached.

        Args:
            model: The converted model, or its parts.

        Raises:
            ValueError: The model was not converted.
        """
        step = self._runs[0].scheduler.current_step if self._runs else 0
        self._parts, self._runs = _parts(model), []  # the schedulers of other parts let go of their sites
        self._runs = [self._settings.begin(part, self._total_steps, metered=()) for part in self._parts]
        for run in self._runs:
            run.resume(step, None)

    def post_optimizer_hook(self, model: nn.Module | Sequence[nn.Module]) -> None:
        """Set the bits of the next step.

        Args:
            model: The converted model, or its parts.

        Raises:
            ValueError: The model was not converted, or it is a copy that was not at the current step.
        """
        parts = _parts(model)
        if list(map(id, parts)) != list(map(id, self._parts)):
            self._check_step(parts)
            self.attach(parts)
        for run in self._runs:
            run.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint: the step, and the settings it belongs to."""
        return self._first().scheduler.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go to the step of a checkpoint, with exactly the bits and the noise that training had at that point.

        Args:
            state_dict: What :meth:`state_dict` returned.
        """
        self._first()
        for run in self._runs:
            run.scheduler.load_state_dict(state_dict)

    def _first(self) -> PrecisionRun:
        if not self._runs:
            raise ValueError("no model was converted: call convert(model) first")
        return self._runs[0]

    def _check_step(self, parts: list[nn.Module]) -> None:
        """Check that modules that were not attached are at the current step: copies are at the step they were made."""
        step = self._runs[0].scheduler.current_step if self._runs else 0
        controlled = (site for part in parts for site in sites(part, self._settings.where or None).values())
        if any(int(site.control[STEP]) != step for site in controlled):
            raise ValueError(
                f"the model was not at the bits of step {step}, because the state of the converter was loaded for "
                "another model: call attach(model_parts) before the first step of a resumed training"
            )


def _parts(model: nn.Module | Sequence[nn.Module]) -> list[nn.Module]:
    return [model] if isinstance(model, nn.Module) else list(model)
