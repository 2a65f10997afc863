"""Experiments on critical learning periods: low precision for a stretch of training, and the controls it needs.

With a normal training of N steps at q_max:

    initial deficit   q_min for the first R steps, then the normal N steps, for a list of R
    sliding window    q_min for W steps that begin at step s of the normal course, N + W steps in all, for a list of s;
                      or, with a whole recovery, after s steps, and then the normal N steps, so that a later window
                      has no less training after it

each in three arms, which differ in nothing else:

    held        the learning rate stands still during the deficit, as in the paper
    restarted   it runs on through the deficit and begins anew after it, with a fresh optimiser (arXiv 2510.09687)
    longer      no deficit: the same number of steps and the same learning rates as held, at q_max throughout

The weights that are tested are the last: the best on validation might be from before the deficit. What held lacks
against longer is what the deficit did; what restarted makes up for was no lasting damage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bitcycle.experiments.run_config import RunConfig

ARMS = ("held", "restarted", "longer")
RECOVERIES = ("rest", "whole")


class Cell(NamedTuple):
    """What one run is for."""

    experiment: str
    """``length`` (initial deficit) or ``position`` (sliding window)."""
    place: int
    """The length of the deficit, or where it begins, in steps."""
    arm: str


@dataclass(frozen=True)
class DeficitPart:
    """Both experiments on one task.

    >>> part = DeficitPart("image", (3, 8), steps=100, lengths=(0.0, 1.0), window=0.5, starts=(0.5,), seeds=(0,))
    >>> for cell, run in part.cells():
    ...     print(cell.experiment, cell.place, cell.arm, run.schedule, run.steps, run.learning_rate or "(its own)")
    length 0 longer static:8 100 (its own)
    length 100 held deficit(3@0..100, static:8) 200 hold@0..100
    length 100 restarted deficit(3@0..100, static:8) 200 restart@100
    length 100 longer static:8 200 hold@0..100
    position 50 held deficit(3@50..100, static:8) 150 hold@50..100
    position 50 restarted deficit(3@50..100, static:8) 150 restart@100
    position 50 longer static:8 150 hold@50..100
    """

    task: str
    bits: tuple[int, int]
    steps: int
    """N, the steps of a normal training."""
    lengths: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 2.0)
    """Of initial deficits, in normal trainings."""
    window: float = 0.5
    """The length of the sliding window, likewise; 0: no such experiment."""
    starts: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)
    """Where the window begins, likewise."""
    recovery: str = "rest"
    """What follows the window: the ``rest`` of the normal training, or a ``whole`` one."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    arms: tuple[str, ...] = ARMS
    diagnostics: bool = True
    model: str = ""
    data: str = ""
    batch_size: int = 0
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.bits[0] >= self.bits[1]:
            raise ValueError(f"a deficit needs q_min below q_max, unlike {self.bits[0]} and {self.bits[1]}")
        if self.steps < 1:
            raise ValueError(f"a normal training has 1 step or more, not {self.steps}")
        if any(not 0 <= length < math.inf for length in (*self.lengths, self.window)):
            raise ValueError("the length of a deficit is 0 or more, in normal trainings")
        if self.recovery not in RECOVERIES:
            raise ValueError(f"the recovery is 'rest' (of the normal training) or 'whole', not {self.recovery!r}")
        if any(not 0 <= start < math.inf for start in self.starts):
            raise ValueError("a window begins at 0 or later, in normal trainings")
        if self.recovery == "rest" and round(self.window * self.steps):
            if any(start >= 1 for start in self.starts):
                raise ValueError("a window begins at a fraction from 0 to below 1 of the normal training")
            if any(round(start * self.steps) >= self.steps for start in self.starts):
                raise ValueError(f"a window begins before the last of the {self.steps} steps of the normal training")
        if set(self.arms) - set(ARMS) or "longer" not in self.arms:
            raise ValueError(f"arms are {', '.join(ARMS)}; 'longer' is what the others are compared with")

    def runs(self) -> Iterator[RunConfig]:
        """All runs, seed by seed."""
        for _, run in self.cells():
            yield run

    def cells(self) -> Iterator[tuple[Cell, RunConfig]]:
        """All runs with what they are for."""
        window = round(self.window * self.steps)
        for seed in self.seeds:
            for length in sorted({round(length * self.steps) for length in self.lengths}):
                yield from self._arms("length", length, 0, length, seed)
            if window:
                for start in sorted({round(start * self.steps) for start in self.starts}):
                    yield from self._arms("position", start, start, start + window, seed)

    def _arms(self, experiment: str, place: int, start: int, stop: int, seed: int) -> Iterator[tuple[Cell, RunConfig]]:
        held_from = 0 if self.recovery == "whole" else start
        total = self.steps + stop - held_from
        normal = f"static:{self.bits[1]}"
        if start == stop:
            yield Cell(experiment, place, "longer"), self._run(normal, total, "", seed)
            return
        deficit = f"deficit({self.bits[0]}@{start}..{stop}, {normal})"
        hold, restart = f"hold@{held_from}..{stop}", f"restart@{stop}"
        for arm, spec, rate in (
            ("held", deficit, hold),
            ("restarted", deficit, restart),
            ("longer", normal, hold),
        ):
            if arm in self.arms:
                yield Cell(experiment, place, arm), self._run(spec, total, rate, seed)

    def _run(self, spec: str, steps: int, rate: str, seed: int) -> RunConfig:
        return RunConfig(
            self.task, spec, steps, seed, self.bits[1], self.model, self.data, self.batch_size,
            test_weights="last", diagnostics=self.diagnostics, learning_rate=rate, options=self.options,
        )  # fmt: skip

    def values(self) -> dict[str, Any]:
        """As a table of a plan file, under ``[[deficit]]``."""
        return {
            "task": self.task,
            "bits": self.bits,
            "steps": self.steps,
            "lengths": self.lengths,
            "window": self.window,
            "starts": self.starts,
            "recovery": self.recovery,
            "seeds": self.seeds,
            "arms": self.arms,
            "diagnostics": self.diagnostics,
            "model": self.model,
            "data": self.data,
            "batch_size": self.batch_size,
            "options": self.options,
        }
