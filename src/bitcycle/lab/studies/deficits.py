"""Experiments on critical learning periods: low precision for a part of training, with the controls it needs.

A normal run has N steps at q_max. There are two experiments:

    initial deficit   q_min for the first R steps, then the normal N steps, for several R
    sliding window    q_min for W steps that begin at step s of the normal run, N + W steps in all, for several s;
                      or, with a whole recovery, s steps, the window, and then the normal N steps, so that a late window
                      is followed by as much training as an early one

Each has three arms, which differ in nothing else:

    held        the learning rate is held during the deficit, as in the paper
    restarted   the learning-rate schedule continues during the deficit and restarts after it, with a fresh optimiser
                (arXiv 2510.09687)
    longer      no deficit: the same number of steps and the same learning rates as held, at q_max throughout

The last weights are tested by default, because the best on validation may be from before the deficit. The difference
between held and longer is the effect of the deficit. What restarted recovers was no lasting damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from bitcycle.lab.runs.fields import one_of
from bitcycle.lab.runs.run_config import RunConfig


class Experiment(StrEnum):
    """What varies between the runs."""

    LENGTH = "length"
    """The length of an initial deficit."""
    POSITION = "position"
    """Where a sliding window begins."""


class Arm(StrEnum):
    """What happens to the learning rate, and whether there is a deficit at all."""

    HELD = "held"
    RESTARTED = "restarted"
    LONGER = "longer"
    """The control without a deficit."""


class Recovery(StrEnum):
    """What follows a sliding window."""

    REST = "rest"
    """The rest of the normal run."""
    WHOLE = "whole"
    """A whole normal run."""


ARMS = tuple(Arm)
MAX_LENGTH = 1000
"""The longest deficit, in normal runs."""
DEFAULTS: dict[str, Any] = {"test_weights": "last", "diagnostics": True}
"""The fields of a run whose default differs in deficit experiments."""
FIXED = ("learning_rate",)
"""The fields of a run that the arms set."""


class Cell(NamedTuple):
    """The purpose of one run."""

    experiment: Experiment
    place: int
    """The length of the deficit, or the step at which it begins."""
    arm: Arm


@dataclass(frozen=True)
class DeficitPart:
    """Both experiments on one task, with lengths and positions as multiples of a normal run.

    >>> part = DeficitPart("image", (3, 8), steps=100, lengths=(0.0, 1.0), window=0.5, starts=(0.5,), seeds=(0,))
    >>> for cell, run in part.cells():
    ...     print(cell.experiment, cell.place, cell.arm, run.schedule, run.steps, run.learning_rate or "(default)")
    length 0 longer static:8 100 (default)
    length 100 held deficit(3@0..100, static:8) 200 hold@0..100
    length 100 restarted deficit(3@0..100, static:8) 200 restart@100
    length 100 longer static:8 200 hold@0..100
    position 50 held deficit(3@50..100, static:8) 150 hold@50..100
    position 50 restarted deficit(3@50..100, static:8) 150 restart@100
    position 50 longer static:8 150 hold@50..100
    """

    task: str
    bits: tuple[int, int]
    """q_min, the width of the deficit, and q_max."""
    steps: int
    """N, the steps of a normal run."""
    lengths: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 2.0)
    """Lengths of the initial deficit, in normal runs."""
    window: float = 0.5
    """The length of the sliding window, in normal runs; 0 = no such experiment."""
    starts: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)
    """Where the window begins, in normal runs."""
    recovery: Recovery = Recovery.REST
    """What follows the window."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    arms: tuple[Arm, ...] = ARMS
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the runs by name, where they are not :data:`DEFAULTS` or those of a run."""

    def __post_init__(self) -> None:
        low, high = self.bits
        if low >= high:
            raise ValueError(f"a deficit needs q_min below q_max, got {low} and {high}")
        if self.steps < 1:
            raise ValueError(f"a normal run must have 1 step or more, got {self.steps}")
        for length in (*self.lengths, self.window, *self.starts):
            if not 0 <= length <= MAX_LENGTH:
                raise ValueError(
                    f"lengths, window and starts must be from 0 to {MAX_LENGTH} normal runs, got {length:g}"
                )
        object.__setattr__(self, "recovery", Recovery(one_of(tuple(Recovery))(self.recovery, "recovery")))
        object.__setattr__(self, "arms", tuple(Arm(one_of(ARMS)(arm, "an arm")) for arm in self.arms))
        if self.recovery is Recovery.REST and round(self.window * self.steps):
            for start in self.starts:
                if round(start * self.steps) >= self.steps:
                    raise ValueError(
                        f"a window must begin before the last of the {self.steps} steps of the normal run, "
                        f"got {start:g} of it"
                    )
        if Arm.LONGER not in self.arms:
            raise ValueError(f"the arms must include 'longer', the control for the others, got {', '.join(self.arms)}")

    def runs(self) -> Iterator[RunConfig]:
        """Yield all runs, seed by seed."""
        for _, run in self.cells():
            yield run

    def cells(self) -> Iterator[tuple[Cell, RunConfig]]:
        """Yield all runs with their purposes; a run can have two."""
        window = round(self.window * self.steps)
        for seed in self.seeds:
            for length in sorted({round(length * self.steps) for length in self.lengths}):
                yield from self._arms(Experiment.LENGTH, length, 0, length, seed)
            if window:
                for start in sorted({round(start * self.steps) for start in self.starts}):
                    yield from self._arms(Experiment.POSITION, start, start, start + window, seed)

    def _arms(
        self, experiment: Experiment, place: int, start: int, stop: int, seed: int
    ) -> Iterator[tuple[Cell, RunConfig]]:
        held_from = 0 if self.recovery is Recovery.WHOLE else start
        total = self.steps + stop - held_from
        normal = f"static:{self.bits[1]}"
        if start == stop:
            yield Cell(experiment, place, Arm.LONGER), self._run(normal, total, "", seed)
            return
        deficit = f"deficit({self.bits[0]}@{start}..{stop}, {normal})"
        hold, restart = f"hold@{held_from}..{stop}", f"restart@{stop}"
        for arm, spec, policy in (
            (Arm.HELD, deficit, hold),
            (Arm.RESTARTED, deficit, restart),
            (Arm.LONGER, normal, hold),
        ):
            if arm in self.arms:
                yield Cell(experiment, place, arm), self._run(spec, total, policy, seed)

    def _run(self, spec: str, steps: int, policy: str, seed: int) -> RunConfig:
        values = {"backward_bits": self.bits[1], **DEFAULTS, **self.fields}
        return RunConfig(self.task, spec, steps, seed, learning_rate=policy, **values)
