"""Precision schedules in Lightning.

Example::

    from bitcycle.integrations.lightning import PrecisionCallback

    module = bc.quantize(LitClassifier())
    trainer = Trainer(max_epochs=10, callbacks=[PrecisionCallback("RTH:3-8", backward_bits=8)])
    trainer.fit(module, loader)
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Any

from torch import nn

from bitcycle._support.extras import need
from bitcycle.integrations._precision_run import PrecisionRun, PrecisionSettings
from bitcycle.schedules import Schedule

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    Callback = need("lightning.pytorch", "lightning", "Lightning's PrecisionCallback").Callback


class PrecisionCallback(Callback):
    """Sets the bits of a LightningModule according to a schedule, once per batch on which an optimiser steps.

    Convert the module, or the models in it, with :func:`bitcycle.quantize` before ``trainer.fit``. Lightning determines
    the total number of steps. Its checkpoints carry the state, and ``fit(ckpt_path=...)`` continues with exactly the
    bits and the rounding noise of an uninterrupted run. Validation and tests are at the schedule's q_max.

    The logger gets the ``bits`` of each step, the ``saving`` so far against training at q_max, and the ``bitops`` of
    this process so far. The progress bar shows the first two.

    Args:
        schedule: A schedule, or its spec such as ``"RTH:3-8"``.
        backward_bits: Bits of grad_output, as in :class:`bitcycle.PrecisionScheduler`: an integer, ``None`` for full
            precision, ``"max"``, or the spec of a schedule.
        measure_cost: Whether to measure ``saving`` and ``bitops``, with a :class:`bitcycle.Meter` for each module that
            the LightningModule holds.
        options: Other arguments of :class:`bitcycle.PrecisionScheduler`, such as ``where``, or ``total_steps`` where
            Lightning does not know it.

    Raises:
        ValueError: The schedule is invalid. When training begins: an option is invalid, the module is not converted, or
            the total number of steps is unknown.
        TypeError: An option is unknown.

    Example:
        >>> PrecisionCallback("RTH:3-8", backward_bits=8, where="model.*").state_key
        'bitcycle model.*'
    """

    def __init__(
        self,
        schedule: Schedule | str,
        backward_bits: int | str | None = "max",
        *,
        measure_cost: bool = True,
        **options: Any,
    ) -> None:
        self.precision = PrecisionRun(PrecisionSettings(schedule, backward_bits=backward_bits, **options), measure_cost)
        self._global_step = 0  # which counts the steps of all optimisers
        self._state: dict[str, Any] = {}

    @property
    def state_key(self) -> str:
        return self.precision.key

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin(trainer, pl_module)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.precision.scheduler is None:  # no sanity check
            self._begin(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self._global_step:
            return  # gradients are being accumulated
        self._global_step = trainer.global_step
        self.precision.step()
        for name, value in self.precision.metrics.items():
            pl_module.log(name, value, prog_bar=name != "bitops")

    def state_dict(self) -> dict[str, Any]:
        if self.precision.scheduler is not None:
            self._state = {"global_step": self._global_step, **self.precision.state_dict()}
        return self._state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        # It is used only if training begins at its step: trainer.test(ckpt_path=...) loads states too.
        self._state = state_dict

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._end()

    def _begin(self, trainer: Trainer, module: LightningModule) -> None:
        """Begin when the trainer has restored its state.

        Before that, asking for the number of steps would set up the training data at their beginning.
        """
        total_steps = self.precision.settings.options.get("total_steps") or _total_steps(trainer, module)
        self.precision.begin(module, total_steps, _called_modules(module))
        self._global_step = trainer.global_step
        if trainer.global_step:
            state = self._state if self._state.get("global_step") == trainer.global_step else None
            self.precision.resume(trainer.global_step if state is None else state["scheduler"]["step"], state)

    def _end(self) -> None:
        """Keep the state, for another ``fit`` that continues, and let go of the module."""
        self.state_dict()
        self.precision.end()


def _total_steps(trainer: Trainer, module: LightningModule) -> int:
    """Return the number of batches on which an optimiser will step."""
    several = not module.automatic_optimization and len(trainer.optimizers) > 1
    total = trainer.estimated_stepping_batches
    if not 0 < total < inf or (several and total == trainer.max_steps):
        raise ValueError(
            "the number of training steps is unknown: pass PrecisionCallback(..., total_steps=N), the number of "
            "batches on which an optimiser steps"
        )
    return int(total)


def _called_modules(module: nn.Module) -> Iterator[nn.Module]:
    """Iterate over the modules that ``training_step`` calls: children with parameters, and those inside containers.

    The LightningModule itself is not among them, because its ``forward`` need not be called.
    """
    for child in module.children():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            yield from _called_modules(child)
        elif next(child.parameters(), None) is not None:
            yield child
