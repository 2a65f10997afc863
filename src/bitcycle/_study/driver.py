"""Carrying a plan out: what is missing is run, what comes of it goes into the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from bitcycle._study.plan import Plan
from bitcycle._study.store import Store, Study
from bitcycle.experiments.result import RunFailure, RunResult
from bitcycle.experiments.run_config import RunConfig


class Engine(Protocol):
    """What runs runs."""

    def outcomes(
        self, runs: Iterable[RunConfig], store: Store, watch: Callable[[dict[str, int]], None]
    ) -> Iterator[RunResult | RunFailure]:
        """What comes of the runs, in the order in which they end; ``watch`` hears how far those under way are.

        Nothing is written into the store here, except checkpoints beside it.
        """


@dataclass
class StudyProgress:
    """How a study stands, in steps of training over all its runs."""

    runs: int
    steps: int
    done: int = 0
    failed: int = 0
    kept: int = 0
    """Runs that were done before this start."""
    steps_done: int = 0
    steps_kept: int = 0
    under_way: dict[str, int] = field(default_factory=dict)
    latest: RunResult | RunFailure | None = None

    @property
    def steps_now(self) -> int:
        """Steps done, those of runs under way included."""
        return self.steps_done + sum(self.under_way.values())


def run_study(
    plan: Plan,
    store: Store,
    engine: Engine,
    command: str = "",
    retry_failed: bool = False,
    watch: Callable[[StudyProgress], None] = lambda standing: None,
) -> Study:
    """Run all runs of the plan that are neither done nor failed (or failed ones too); everything else is kept."""
    plan.check()
    runs = plan.runs()
    study = store.begin(plan.name, runs, plan.as_toml(), command)
    if retry_failed:
        store.clear_failures(runs)
    done, failed = store.done(), {failure.run.name for failure in store.failures(runs)}
    missing = [run for run in runs if run.name not in done | failed]
    kept = [run for run in runs if run.name in done]
    standing = StudyProgress(len(runs), sum(run.steps for run in runs), len(kept), len(failed), len(kept))
    standing.steps_kept = standing.steps_done = sum(run.steps for run in runs if run.name in done | failed)

    def under_way(steps: dict[str, int]) -> None:
        standing.under_way = steps
        watch(standing)

    watch(standing)
    for outcome in engine.outcomes(missing, store, under_way):
        _keep(outcome, store, standing)
        watch(standing)
    return study


def _keep(outcome: RunResult | RunFailure, store: Store, standing: StudyProgress) -> None:
    """Into the store first; only then the checkpoint may go."""
    from bitcycle._study.engines.worker import forget

    if isinstance(outcome, RunResult):
        store.write(outcome)
        standing.done += 1
    else:
        store.fail(outcome.run, outcome.traceback)
        standing.failed += 1
    forget(store.checkpoints / outcome.run.name)
    standing.latest = outcome
    standing.under_way.pop(outcome.run.name, None)
    standing.steps_done += outcome.run.steps
