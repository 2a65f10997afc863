"""What the text of a run means: its schedule, and the width of its gradients."""

from __future__ import annotations

from bitcycle.experiments.run_config import RunConfig
from bitcycle.schedules import Schedule, schedule
from bitcycle.schedules.base import Bits


def schedule_of(run: RunConfig) -> Schedule | None:
    """The schedule of a run, or None for a user's function that is not known in this process."""
    try:
        return schedule(run.schedule)
    except ValueError:
        if "call:" in run.schedule:
            return None
        raise


def gradient_bits(run: RunConfig) -> Bits | str:
    """The bits of a run's gradients: those it names, or the largest of its schedule; ``max`` if that is not known.

    >>> gradient_bits(RunConfig("graph", "CR:3-8", 150))
    8
    >>> gradient_bits(RunConfig("graph", "CR:3-8", 150, backward_bits=6))
    6
    """
    found = schedule_of(run)
    if run.backward_bits != "max" or found is None:
        return run.backward_bits
    return found.limits(run.steps)[1]
