"""Precision schedules in the Trainer of transformers.

Example::

    from bitcycle.integrations.transformers import PrecisionCallback

    bc.quantize(model, keep="classifier")
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[PrecisionCallback("RTH:3-8", backward_bits=8)])
    trainer.train()
    trainer.save_model("trained")  # a plain model: AutoModel.from_pretrained reads it without bitcycle
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bitcycle._support.extras import need
from bitcycle.integrations._precision_run import PrecisionRun, PrecisionSettings
from bitcycle.schedules import Schedule

if TYPE_CHECKING:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
else:
    TrainerCallback = need("transformers", "trainer", "the Trainer's PrecisionCallback").TrainerCallback


class PrecisionCallback(TrainerCallback):
    """Sets the bits of the Trainer's model according to a schedule, once per optimiser step.

    Convert the model with :func:`bitcycle.quantize` before you give it to the Trainer. The Trainer determines the total
    number of steps. The Trainer's checkpoints carry the state, and ``resume_from_checkpoint`` continues with exactly
    the bits and the rounding noise of an uninterrupted run. Evaluation is at the schedule's q_max.

    The logs have the ``bits`` of the last step, the ``saving`` so far against training at q_max, and the ``bitops`` of
    this process so far. Reporting callbacks see them if they come later in ``Trainer(callbacks=[...])``.

    Args:
        schedule: A schedule, or its spec such as ``"RTH:3-8"``.
        backward_bits: Bits of grad_output, as in :class:`bitcycle.PrecisionScheduler`: an integer, ``None`` for full
            precision, ``"max"``, or the spec of a schedule.
        measure_cost: Whether to measure ``saving`` and ``bitops``, with a :class:`bitcycle.Meter`.
        options: Other arguments of :class:`bitcycle.PrecisionScheduler`, such as ``where``.

    Raises:
        ValueError: The schedule is invalid. When training begins: an option is invalid, or the model is not converted.
        TypeError: An option is unknown.

    Example:
        >>> str(PrecisionCallback("RTH:3-8", backward_bits=8).precision.settings.schedule)
        'RTH:3-8:cycles=8'
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

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        model = others["model"]
        self.precision.begin(model, state.max_steps, metered=[model])
        if state.global_step:
            self.precision.resume(state.global_step, _callback_states(state).get(self.precision.key))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any) -> None:
        self.precision.step()
        _callback_states(state)[self.precision.key] = self.precision.state_dict()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **others: Any,
    ) -> None:
        if logs is not None and not logs.keys().isdisjoint(("loss", "train_loss")):
            logs.update(self.precision.metrics)
            state.log_history[-1].update(self.precision.metrics)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        self.precision.end()


def _callback_states(state: TrainerState) -> dict[str, Any]:
    """Return the states of callbacks that checkpoints carry, by name. transformers annotates them as a list.

    Our name is not that of the class, which would let the Trainer construct the callback anew.
    """
    states: Any = state.stateful_callbacks
    return states
