"""Where a learning-rate schedule begins to fall, so that a change of precision can be put just before it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise

from torch.optim.lr_scheduler import ChainedScheduler, LRScheduler, ReduceLROnPlateau

from bitcycle.schedules.base import validate_steps

TOLERANCE = 1e-9
"""The smallest relative difference between two learning rates that counts as a fall."""


def decay_begins(lr_scheduler: LRScheduler | Callable[[int], float], total_steps: int) -> int | None:
    """Return the first step whose learning rate is below that of the step before.

    The scheduler and its optimiser are not changed: copies of both, which share the parameters, run through the steps.
    A scheduler that has stepped already is followed from its current step.

    Args:
        lr_scheduler: Any learning-rate scheduler of torch or transformers that is stepped once per training step, or a
            function of the step that returns the learning rate.
        total_steps: Number of training steps.

    Returns:
        The step, or ``None`` if the learning rate never falls. With several parameter groups, the first fall of any.

    Raises:
        ValueError: The learning rate depends on the training, as that of ``ReduceLROnPlateau``, or ``lr_scheduler`` is
            neither a scheduler nor a function.

    Example:
        >>> import bitcycle as bc
        >>> bc.decay_begins(lambda step: 0.1 if step < 80 else 0.1 * (100 - step) / 20, total_steps=100)
        81
    """
    total_steps = validate_steps(total_steps, "total_steps")
    if isinstance(lr_scheduler, ReduceLROnPlateau):
        raise ValueError(
            "ReduceLROnPlateau depends on the metric, so the step at which it decays cannot be computed in advance"
        )
    if isinstance(lr_scheduler, LRScheduler):
        # A chain has no step of its own: all of its schedulers step together.
        stepping = lr_scheduler._schedulers[0] if isinstance(lr_scheduler, ChainedScheduler) else lr_scheduler
        first, rates = stepping.last_epoch, _rates(lr_scheduler)
    elif callable(lr_scheduler):
        first, rates = 0, ([float(lr_scheduler(step))] for step in range(total_steps))
    else:
        raise ValueError(
            "lr_scheduler must be a torch.optim.lr_scheduler.LRScheduler or a function of the step, "
            f"got {type(lr_scheduler).__name__}"
        )
    for step, (before, after) in zip(range(first + 1, total_steps), pairwise(rates), strict=False):
        if any(new < old * (1 - TOLERANCE) for old, new in zip(before, after, strict=True)):
            return step
    return None


def _rates(lr_scheduler: LRScheduler) -> Iterator[list[float]]:
    """Yield the learning rates of all groups from the current step on, by copies of the scheduler and the optimiser."""
    optimizer = lr_scheduler.optimizer
    shared = [optimizer.state, *(group["params"] for group in optimizer.param_groups)]
    own = copy.deepcopy(lr_scheduler, {id(each): each for each in shared})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the optimiser of the copy never steps
        while True:
            yield [float(group["lr"]) for group in own.optimizer.param_groups]
            own.step()
