"""The time of a training step of every variant of a model."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.speed.peers import NotAvailableError
from benchmarks.speed.settings import BenchSettings
from benchmarks.speed.timing import Spread, ratio, time_in_turns, with_threads
from benchmarks.speed.variants import FULL_PRECISION, training_step, variants_of


@dataclass(frozen=True)
class StepTime:
    """The time of a training step; without times, a note says why."""

    model: str
    variant: str
    threads: int
    seconds: Spread | None = None
    ratio: Spread | None = None
    """To full precision, round by round."""
    note: str = ""


def time_steps(model: str, threads: int, settings: BenchSettings) -> list[StepTime]:
    """Time the steps of all variants of a model in turns."""
    steps, notes = {}, {}
    for variant in variants_of(model):
        try:
            steps[variant] = training_step(model, variant, settings.forward, settings.backward, settings.quick)
        except NotAvailableError as reason:
            notes[variant] = str(reason)
    with with_threads(threads):
        times = time_in_turns(steps, settings.rounds)
    measured = {
        variant: (Spread.of(seconds), ratio(seconds, times[FULL_PRECISION])) for variant, seconds in times.items()
    }
    return [
        StepTime(model, variant, threads, *measured[variant])
        if variant in measured
        else StepTime(model, variant, threads, note=notes[variant])
        for variant in variants_of(model)
    ]
