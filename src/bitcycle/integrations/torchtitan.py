"""Precision schedules as a model converter, the extension point of torchtitan. It does not need torchtitan itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from bitcycle.arithmetic.control import STEP
from bitcycle.conversion.convert import quantize
from bitcycle.conversion.sites import sites
from bitcycle.integrations._precision_run import PrecisionSettings
from bitcycle.scheduler import PrecisionScheduler
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
        self._settings = PrecisionSettings(schedule, backward_bits=backward_bits, **options)
        self._total_steps = total_steps
        self._conversion = conversion or {}
        self._parts: list[nn.Module] = []
        self._schedulers: list[PrecisionScheduler] = []

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
        step = self._step
        self._parts, self._schedulers = _parts(model), []  # the schedulers of other parts let go of their sites
        self._schedulers = [self._settings.scheduler(part, self._total_steps) for part in self._parts]
        self.load_state_dict({"step": step})

    def post_optimizer_hook(self, model: nn.Module | Sequence[nn.Module]) -> None:
        """Set the bits of the next step.

        Args:
            model: The converted model, or its parts.

        Raises:
            ValueError: The model was not converted, or it is a copy that was not at the current step.
        """
        parts = _parts(model)
        if list(map(id, parts)) != list(map(id, self._parts)):
            # Copies are at the step at which they were made.
            controlled = (site for part in parts for site in sites(part, self._settings.where or None).values())
            if any(int(site.control[STEP]) != self._step for site in controlled):
                raise ValueError(
                    f"the model was not at the bits of step {self._step}, because the state of the converter was "
                    "loaded for another model: call attach(model_parts) before the first step of a resumed training"
                )
            self.attach(parts)
        for scheduler in self._schedulers:
            scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint: the step, and the settings it belongs to."""
        self._check_converted()
        return self._schedulers[0].state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go to the step of a checkpoint, with exactly the bits and the noise that training had at that point.

        Args:
            state_dict: What :meth:`state_dict` returned.
        """
        self._check_converted()
        for scheduler in self._schedulers:
            scheduler.load_state_dict(state_dict)

    @property
    def _step(self) -> int:
        return self._schedulers[0].current_step if self._schedulers else 0

    def _check_converted(self) -> None:
        if not self._schedulers:
            raise ValueError("no model was converted: call convert(model) first")


def _parts(model: nn.Module | Sequence[nn.Module]) -> list[nn.Module]:
    return [model] if isinstance(model, nn.Module) else list(model)
