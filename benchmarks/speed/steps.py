"""The time of a training step of every variant of a model."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from benchmarks.speed.peers import NotAvailableError
from benchmarks.speed.settings import BenchSettings
from benchmarks.speed.timing import Spread, ratio, time_in_turns
from benchmarks.speed.variants import FULL_PRECISION, training_step, variants_of


@dataclass(frozen=True)
class StepTime:
    """The time of a training step."""

    model: str
    variant: str
    threads: int
    seconds: Spread | None
    ratio: Spread | None
    """To full precision, round by round."""
    note: str = ""
    """Why it was not measured."""


def time_steps(model: str, threads: int, settings: BenchSettings) -> list[StepTime]:
    """Time the steps of all variants of a model in turns."""
    steps, notes = {}, {}
    for variant in variants_of(model):
        try:
            steps[variant] = training_step(model, variant, settings.forward, settings.backward, settings.quick)
        except NotAvailableError as reason:
            notes[variant] = str(reason)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        seconds = time_in_turns(steps, settings.rounds)
    finally:
        torch.set_num_threads(before)
    return [
        StepTime(
            model,
            variant,
            threads,
            Spread.of(seconds[variant]) if variant in seconds else None,
            ratio(seconds[variant], seconds[FULL_PRECISION]) if variant in seconds else None,
            notes.get(variant, ""),
        )
        for variant in variants_of(model)
    ]
