"""Run the missing runs of a plan and write their results into the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from bitcycle.lab.runs.result import RunFailure, RunResult
from bitcycle.lab.runs.run_config import RunConfig
from bitcycle.lab.studies.plan import Plan
from bitcycle.lab.studies.queue import RunQueue, remove_leftovers
from bitcycle.lab.studies.store import Store, Study


class Engine(Protocol):
    """Something that trains runs."""

    @property
    def worker_count(self) -> int | None:
        """How many runs are trained at once; None if it is not known, as for a cluster that is not connected."""

    @property
    def thread_count(self) -> int:
        """Threads of each worker."""

    def outcomes(
        self, runs: RunQueue, store: Store, watch: Callable[[dict[str, int]], None]
    ) -> Iterator[RunResult | RunFailure]:
        """Train the runs and yield their outcomes in the order in which they end.

        An engine writes checkpoints beside the store, but nothing into it: a run stays locked until its outcome, which
        the engine yields, is in the store.

        Args:
            runs: The runs to train, to be taken as workers become free until none is left.
            store: The store whose folder of checkpoints is used.
            watch: Called now and then with the current step of each run in progress, by the name of the run.
        """


@dataclass
class StudyProgress:
    """The progress of a study, in runs and in training steps over all its runs."""

    planned_runs: int
    planned_steps: int
    done: int = 0
    """Runs that are done, including earlier ones."""
    failed: int = 0
    """Runs that failed, including earlier ones."""
    done_before: int = 0
    """Runs that were done before this start."""
    finished_steps: int = 0
    """Steps of all runs that are done or failed."""
    finished_steps_before: int = 0
    """Steps of the runs that were done or failed before this start."""
    running: dict[str, int] = field(default_factory=dict)
    """The current step of each run in progress, by the name of the run."""
    ended: RunResult | RunFailure | None = None
    """The outcome of the run whose end is reported; None in other reports."""

    @property
    def current_steps(self) -> int:
        """Steps so far, including those of runs in progress."""
        return self.finished_steps + sum(self.running.values())

    @property
    def status(self) -> str:
        """How many runs are done.

        >>> StudyProgress(10, 1000, done=4, failed=1, done_before=2).status
        '4 of 10 runs done (2 before), 1 failed'
        """
        before = f" ({self.done_before} before)" if self.done_before else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} of {self.planned_runs} runs done{before}{failed}"

    @property
    def line(self) -> str:
        """One line about the run whose end is reported; empty in other reports."""
        if self.ended is None:
            return ""
        run = self.ended.run
        outcome = f"{self.ended.test:.4f}" if isinstance(self.ended, RunResult) else "failed"
        number = self.done + self.failed
        return f"{number:>4}/{self.planned_runs}  {run.task} {run.description} seed {run.seed}: {outcome}"


def run_study(
    plan: Plan,
    store: Store,
    engine: Engine,
    command: str = "",
    retry_failed: bool = False,
    watch: Callable[[StudyProgress], None] = lambda progress: None,
    wanted: Collection[str] | None = None,
) -> Study:
    """Train all runs of a plan that are neither done nor failed.

    A study that has nothing left to run keeps its entry in the store, with the time and the workers of the start that
    finished it.

    Args:
        plan: What to run.
        store: Where results are written, each as soon as its run ends.
        engine: What trains the runs.
        command: The command line to store with the study.
        retry_failed: Also train the runs that failed before.
        watch: Called with the progress whenever it changes.
        wanted: The names of the runs to train now; default: all. The study is stored with all runs of the plan.

    Returns:
        The study as it is stored.

    Raises:
        OSError: The store or a checkpoint cannot be written.
    """
    if damaged := store.delete_damaged():
        logging.getLogger("bitcycle").warning(
            "%s is damaged; deleted: the rows of %s. Runs of this study among them are trained again",
            store.path,
            ", ".join(damaged),
        )
    remove_leftovers(store)
    planned = plan.runs()
    runs = planned if wanted is None else [run for run in planned if run.name in wanted]
    if retry_failed:
        store.clear_failures(runs)
    done, failed = _ended(runs, store)
    missing = [run for run in runs if run.name not in done | failed]
    text = plan.as_toml()
    if missing or plan.name not in store.studies() or store.study(plan.name).plan != text:
        store.begin(plan.name, plan.purposes(), text, command, plan.deficits)

    steps_before = sum(run.steps for run in runs if run.name in done | failed)
    progress = StudyProgress(
        planned_runs=len(runs),
        planned_steps=sum(run.steps for run in runs),
        done=len(done),
        failed=len(failed),
        done_before=len(done),
        finished_steps=steps_before,
        finished_steps_before=steps_before,
    )

    def report(running: dict[str, int]) -> None:
        progress.running = running
        watch(progress)

    def count(outcome: RunResult | RunFailure) -> None:
        progress.done += isinstance(outcome, RunResult)
        progress.failed += isinstance(outcome, RunFailure)
        progress.running.pop(outcome.run.name, None)
        progress.finished_steps += outcome.run.steps
        progress.ended = outcome
        watch(progress)
        progress.ended = None

    watch(progress)
    queue = RunQueue(missing, store, ended_elsewhere=count)
    try:
        for number, outcome in enumerate(engine.outcomes(queue, store, report)):
            if number == 0:
                store.set_workers(plan.name, engine.worker_count)  # a cluster is connected only now
            store.write(outcome)
            written = store.outcome(outcome.run) or outcome  # another process may have written a result
            queue.end(outcome.run, keep_checkpoint=isinstance(written, RunFailure))
            count(written)
    finally:
        queue.close()
    if store.study(plan.name).ended is None and sum(map(len, _ended(planned, store))) == len(planned):
        store.end(plan.name)
    return store.study(plan.name)


def _ended(runs: Iterable[RunConfig], store: Store) -> tuple[set[str], set[str]]:
    """Return the names of the runs that are done, and of those that failed."""
    done: set[str] = set()
    failed: set[str] = set()
    for outcome in store.outcomes(runs, with_curves=False):
        (done if isinstance(outcome, RunResult) else failed).add(outcome.run.name)
    return done, failed
